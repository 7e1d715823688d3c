"""Plugins of mcptrio that surround every request, loaded if the configuration has a table for them."""

__all__: list[str] = []
