"""Connects clients to servers: the targets, the ``mcp.json`` files that contain them, and ``connect``."""
