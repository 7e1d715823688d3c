"""Plugins: finds, imports, configures and registers them, so that a failing one does not affect the others."""

__all__: list[str] = []
