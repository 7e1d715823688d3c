"""Targets of all kinds, as they are written and as ``mcp.json`` files hold them, and the function that connects."""
