"""The ``mcp.json`` files of hosts, read as targets: Claude, Cursor, VS Code and those that write like them.

Used by ``connect`` for a single entry, by the host for a file, by the command line for ``file.json#name``.
The one rule: no value of an entry is repeated in an error, since it may be a secret; its place is, and what was
expected.
"""

from mcptrio.connecting.mcp_json.entries import read_entry
from mcptrio.connecting.mcp_json.files import ServerFile, is_reference, load_mcp_json, read_mcp_json, read_reference
from mcptrio.connecting.mcp_json.inputs import AskInput, Input

__all__ = [
    "AskInput",
    "Input",
    "ServerFile",
    "is_reference",
    "load_mcp_json",
    "read_entry",
    "read_mcp_json",
    "read_reference",
]
