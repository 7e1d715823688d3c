"""Reads a whole ``mcp.json``: the names of its servers, and each server as a target.

The host reads all servers of such a file, and the command line reads one: ``file.json#name``. Entries are read one by
one, so an error in one does not affect the others.

Source: VS Code, "MCP configuration reference"; Claude Code, ".mcp.json"; Zed, "Model Context Protocol"; opencode, "MCP
servers"; the files named in their documentation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcptrio.connecting.mcp_json.entries import read_entry_at
from mcptrio.connecting.mcp_json.inputs import AskInput, DeclaredInputs
from mcptrio.connecting.mcp_json.jsonc import JSONProblem, parse
from mcptrio.connecting.mcp_json.locations import SourceLocation, kind_of
from mcptrio.connecting.mcp_json.variables import Variables
from mcptrio.connecting.targets import Command, Endpoint, Socket
from mcptrio.errors import ConfigError
from mcptrio.ground.bounded_file import read_text
from mcptrio.ground.quoting import printable

__all__ = ["MAX_FILE_BYTES", "ServerFile", "is_reference", "load_mcp_json", "read_reference"]

MAX_FILE_BYTES = 4 * 1024 * 1024
"""Maximum size of a file. The largest are those in which a host keeps other settings as well."""

# servers is VS Code's key, context_servers Zed's, mcp opencode's; VS Code uses mcp too, in its settings.json.
_SERVERS_KEYS = ("mcpServers", "servers", "context_servers", "mcp")
_EXPECTED = "mcpServers, servers, context_servers (Zed) or mcp (opencode, and VS Code's settings.json)"
_REFERENCE = re.compile(r"(?P<file>.+?\.jsonc?)(?:#(?P<name>.+))?", re.DOTALL | re.IGNORECASE)
_MAX_NAMED_SERVERS = 20
"""Server names that an error lists."""


class ServerFile:
    """The servers of a file. Made by :func:`load_mcp_json`."""

    def __init__(self, entries: Mapping[str, Any], place: SourceLocation, variables: Variables) -> None:
        self._entries = entries
        self._place = place
        self._variables = variables

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the enabled servers, in the order of the file."""
        return tuple(name for name in self._entries if not self._is_disabled(name))

    def read(self, name: str) -> Command | Endpoint | Socket:
        """Return the target of one server.

        Raises:
            ConfigError: The file has no such server, or its entry is invalid.
        """
        if name not in self._entries:
            names = ", ".join(printable(each[:80]) for each in list(self._entries)[:_MAX_NAMED_SERVERS]) or "none"
            raise self._place.error(f"expected the name of a server ({names}), got {printable(name[:80])}")
        return read_entry_at(self._entries[name], self._place.at(name), self._variables)

    def _is_disabled(self, name: str) -> bool:
        entry = self._entries[name]
        # "disabled" is written by Cline and Windsurf, "enabled" by Zed and opencode.
        return isinstance(entry, Mapping) and (entry.get("disabled") is True or entry.get("enabled") is False)


def load_mcp_json(path: Path | str, *, ask: AskInput | None = None) -> ServerFile:
    """Read a file without reading its entries yet.

    ``${workspaceFolder}``, and the base of relative paths, is the folder of the file, or its parent if the folder's
    name starts with a dot (``.vscode``).

    Args:
        ask: Asks the user for the file's inputs (``${input:id}``); without it, an entry that uses one is an error.

    Raises:
        ConfigError: The file is unreadable, is not JSON (comments and trailing commas are allowed), or has no servers.
    """
    path = Path(path)
    place = SourceLocation(source=str(path))
    text = read_text(path, MAX_FILE_BYTES, place.error)
    try:
        document = parse(text)
    except JSONProblem as problem:
        raise ConfigError(f"{path}:{problem.line}: {problem}") from None
    place = SourceLocation(source=str(path), document=document)
    tables = document.value
    if not isinstance(tables, dict):
        raise place.error(f"expected an object, got {kind_of(tables)}")
    keys, is_opencode = _path_of_servers(tables, place)
    for key in keys[:-1]:
        tables, place = tables[key], place.at(key)
    entries = tables[keys[-1]]
    if not isinstance(entries, dict):
        raise place.at(keys[-1]).error(f"expected an object, got {kind_of(entries)}")
    inputs = DeclaredInputs(None if is_opencode else tables.get("inputs"), place.at("inputs"), ask)
    folder = path.absolute().parent
    folder = folder.parent if folder.name.startswith(".") else folder
    variables = Variables(os.environ, folder, inputs, is_opencode=is_opencode)
    return ServerFile(entries, place.at(keys[-1]), variables)


def is_reference(text: str) -> bool:
    """Return whether a text names a server in a file: ``mcp.json#fs``, or ``mcp.json`` if it has only one."""
    return _REFERENCE.fullmatch(text) is not None


def read_reference(text: str, *, ask: AskInput | None = None) -> tuple[str, Command | Endpoint | Socket]:
    """Return the name and target of the server that ``file.json#name`` names.

    Raises:
        ConfigError: The text names no server, or not a single one; or the file or entry is invalid.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise ConfigError(f"expected file.json#name, got {printable(text[:80])}")
    file = load_mcp_json(match["file"], ask=ask)
    name = match["name"]
    if name is None:
        if len(file.names) != 1:
            names = ", ".join(printable(each[:80]) for each in file.names[:_MAX_NAMED_SERVERS]) or "none"
            raise ConfigError(f"{match['file']}: expected #name of one of its servers ({names}), got no name")
        [name] = file.names
    return name, file.read(name)


def _path_of_servers(tables: Mapping[str, Any], place: SourceLocation) -> tuple[tuple[str, ...], bool]:
    """Return the keys that lead to the servers, and True if the file is opencode's.

    Raises:
        ConfigError: The file has no servers, or has them in two places.
    """
    keys = [key for key in _SERVERS_KEYS if key in tables]
    if len(keys) > 1 and keys[-1] == "mcp":
        # Gemini CLI keeps its limits in "mcp", next to its mcpServers.
        keys.pop()
    if len(keys) != 1:
        raise place.error(f"expected one of {_EXPECTED}, got {' and '.join(keys) or 'none'}")
    if keys != ["mcp"]:
        return tuple(keys), False
    servers = tables["mcp"].get("servers") if isinstance(tables["mcp"], dict) else None
    # opencode may have a server with the name "servers"; it then has the keys of an entry.
    is_opencode = not isinstance(servers, dict) or not {"type", "command", "url", "enabled"}.isdisjoint(servers)
    return (("mcp",) if is_opencode else ("mcp", "servers")), is_opencode
