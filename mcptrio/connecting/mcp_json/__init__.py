"""Reads the ``mcp.json`` files of Claude, Cursor, VS Code and similar hosts as connection targets.

``connect`` reads single entries, the host whole files, the command line ``file.json#name``. Errors name the location
and the expected value but never quote a value, which may be a secret.
"""

from mcptrio.connecting.mcp_json.entries import read_entry
from mcptrio.connecting.mcp_json.files import ServerFile, is_reference, load_mcp_json, read_reference
from mcptrio.connecting.mcp_json.inputs import AskInput, Input

__all__ = [
    "AskInput",
    "Input",
    "ServerFile",
    "is_reference",
    "load_mcp_json",
    "read_entry",
    "read_reference",
]
