"""Plugins of mcptrio around every request, loaded if the configuration has a table for them."""

__all__: list[str] = []
