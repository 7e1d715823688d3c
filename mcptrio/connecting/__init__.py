"""Connection targets, the ``mcp.json`` files that contain them, and the function that connects."""
