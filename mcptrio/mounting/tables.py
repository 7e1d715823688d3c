"""The tables ``[mount.NAME]`` of ``mcptrio.toml``, and the servers that they name.

:mod:`mcptrio.mounting.mounts` reads them. An invalid entry does not affect the other servers. Its server is listed with
the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import field, fields, frozen
from attrs.validators import ge, gt, in_, le, optional

from mcptrio.connecting.mcp_json import load_mcp_json
from mcptrio.connecting.targets import Target
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import quote_name
from mcptrio.mounting.mount import Mount
from mcptrio.mounting.options import MountOptions
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.protocol.revisions.registry import REVISIONS

__all__ = ["MountTable", "MountTables", "MountedServer", "mounted_servers"]

_log = logging.getLogger("mcptrio.mounting")

# The fields of MountTable that describe how to connect to a server.
_ENTRY_FIELDS = ("command", "args", "env", "env_file", "cwd", "url", "headers", "transport")


@frozen(kw_only=True)
class MountTable:
    """One table, with the connection to a server in the keys of ``mcpServers``, and the options of its mount."""

    command: Any = None
    """The program to start. Messages use its standard input and output."""

    args: Any = field(default=None, repr=False, metadata={"secret": True})
    """The arguments of the program."""

    env: Any = field(default=None, repr=False, metadata={"secret": True})
    """Environment variables of the program, in addition to ``PATH``, ``HOME`` and a few others of this process."""

    env_file: Path | None = None
    """A file with environment variables, one ``NAME=VALUE`` a line."""

    cwd: Path | None = None
    """The folder that the program starts in."""

    url: Any = field(default=None, repr=False, metadata={"secret": True})
    """The address of a server over HTTP, WebSocket or a socket, in place of ``command``."""

    headers: Any = field(default=None, repr=False, metadata={"secret": True})
    """Headers of each request to ``url``."""

    transport: Any = None
    """``http`` or ``sse``; unset: the client tries both."""

    file: Path | None = None
    """A file of a host (``mcp.json``), in place of ``command``: all its servers are mounted, by their own names."""

    disabled: bool = False
    """True if the server is left out."""

    prefix: str | None = None
    """The beginning of its tools' and prompts' names; by default the name of the server, empty for no prefix."""

    tools: ToolPolicy = field(factory=ToolPolicy)
    """Which of its tools are offered; globs match their own names."""

    timeout: float | None = field(default=None, validator=optional(gt(0)))
    """Seconds for one call, with or without progress; unset: the timeouts of our server apply."""

    start_timeout: float = field(default=5.0, validator=[ge(0), le(300)])
    """Seconds, up to 300, that our start waits for the server. Our start waits for all of them together."""

    ready_timeout: float = field(default=10.0, validator=[gt(0), le(600)])
    """Seconds, up to 600, that a call waits for the server while the server is disconnected or starting."""

    idle_timeout: float | None = field(default=None, validator=optional(ge(1)))
    """Seconds without a call, at least 1, after which the server is stopped until the next call; unset: never."""

    lazy: bool = False
    """True to stop the server when its lists have been read, until the first call."""

    task: Literal["never", "optional"] = "optional"
    """``optional``: a call that takes longer than ``timeouts.task_after`` becomes a task, if the client supports tasks;
    ``never``: it stays a call."""

    revision: str | None = field(default=None, validator=optional(in_(tuple(REVISIONS))))
    """The revision to speak with it; unset: the newest that both sides know."""

    @property
    def entry(self) -> dict[str, Any]:
        """The entry in the form of ``mcpServers``."""
        settings = {name: value for name in _ENTRY_FIELDS if (value := getattr(self, name)) is not None}
        # Host applications spell this one key differently.
        renamed = {"envFile" if name == "env_file" else name: value for name, value in settings.items()}
        return {key: str(value) if isinstance(value, Path) else value for key, value in renamed.items()}

    @property
    def options(self) -> MountOptions:
        """The options of the mount. The start timeout is 0, because our start waits for all servers together."""
        shared = {each.name for each in fields(MountOptions)} & {each.name for each in fields(MountTable)}
        return MountOptions(**{name: getattr(self, name) for name in shared - {"start_timeout"}}, start_timeout=0)


@frozen(kw_only=True)
class MountTables:
    """The settings of the plugin ``mount``."""

    servers: Mapping[str, MountTable] = field(factory=dict)
    """The tables ``[mount.NAME]``, by name."""


@frozen(kw_only=True)
class MountedServer:
    """One configured server.

    Args:
        target: The target of the connection, which may contain secrets.
        mount: The mount of the server; ``None`` if the entry is invalid.
        failure: The error in the entry.
    """

    name: str
    table: MountTable
    target: Any = field(default=None, repr=False)
    mount: Mount | None = None
    failure: str | None = None

    def is_same(self, other: MountedServer) -> bool:
        """Return whether all settings are equal."""
        return (self.target, self.table, self.failure) == (other.target, other.table, other.failure)


def mounted_servers(tables: MountTables) -> dict[str, MountedServer]:
    """Return the servers by name. A table takes precedence over a server with the same name in a file.

    Raises:
        ConfigError: A file cannot be read, or two files have a server of the same name.
    """
    servers: dict[str, MountedServer] = {}
    # The tables that name a server themselves come first, because they take precedence over files.
    for name, table in tables.servers.items():
        if table.file is None and not table.disabled:
            servers[name] = _mount(name, table, table.entry)
    for own_name, table in tables.servers.items():
        if table.file is None or table.disabled:
            continue
        # A table with `file` and also `command` or `url` is ambiguous, so its server is left out.
        if table.entry:
            servers[own_name] = _mount(own_name, table, None, f"expected file alone, got {', '.join(table.entry)} too")
        else:
            for name, target, failure in _entries_of_file(table.file):
                if name in servers and servers[name].table.file is not None:
                    raise ConfigError(f"expected one server {quote_name(name)} in the files, got two")
                # A table with this name and without `file` takes precedence, even if it only disables the server.
                if name not in tables.servers or tables.servers[name].file is not None:
                    servers[name] = _mount(name, table, target, failure)
    return servers


def _entries_of_file(path: Path) -> Iterator[tuple[str, Target | None, str | None]]:
    file = load_mcp_json(path)
    for name in file.names:
        try:
            yield name, file.read(name), None
        except ConfigError as error:
            yield name, None, str(error)


def _mount(name: str, table: MountTable, target: Any, failure: str | None = None) -> MountedServer:
    if failure is None:
        try:
            return MountedServer(
                name=name, table=table, target=target, mount=Mount(target, name=name, options=table.options)
            )
        except ConfigError as error:
            failure = str(error)
    # Logged here, because the configuration is read before list_mounts can be called.
    _log.error("server not mounted: name=%s: %s", name, failure)
    return MountedServer(name=name, table=table, target=target, failure=failure)
