"""Plugins: found, imported, configured, registered, each at its own risk."""

__all__: list[str] = []
