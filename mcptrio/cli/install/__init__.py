"""Adds mcptrio to the configuration of host applications: Claude, Cursor, VS Code and others.

``mcptrio host`` uses it. :mod:`mcptrio.connecting.mcp_json` reads such files; this package writes and removes our
entry. Everything but our entry stays the same, byte for byte. A file that cannot be edited in this way is refused.
"""
