"""Other MCP servers offered as one's own: mounted in this server, call by call, in every revision on both sides."""

__all__: list[str] = []
