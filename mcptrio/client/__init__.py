"""A client of one server: what it asks, and how the questions of the server are answered."""

__all__: list[str] = []
