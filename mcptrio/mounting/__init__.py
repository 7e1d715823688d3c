"""Mounted MCP servers: their tools, resources and prompts, offered by this server in every revision."""

__all__: list[str] = []
