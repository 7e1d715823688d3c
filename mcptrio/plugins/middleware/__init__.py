"""The middleware plugins of mcptrio, which are loaded if the configuration has a table for them."""

__all__: list[str] = []
