"""Plugins that come with mcptrio and are around every request. Loaded where the configuration names them."""

__all__: list[str] = []
