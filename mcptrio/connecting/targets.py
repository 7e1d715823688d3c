"""What a client can connect to, as values: a command to start, an endpoint or a socket to reach.

Made by callers and from ``mcp.json``; :mod:`mcptrio.connecting.connect` opens them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

from mcptrio.abc import AuthMethod, ClientAuth, MessageChannel

if TYPE_CHECKING:
    from mcptrio.server import RunningServer, Server

__all__ = ["Command", "Endpoint", "Socket", "Target"]

Stderr: TypeAlias = "Literal['log', 'forward', 'drop'] | Callable[[str], object]"
"""Where the lines of a server's standard error go: into the log, to ours, nowhere, or to a function."""


@frozen(kw_only=True)
class Command:
    """A server to start, spoken with over its standard input and output.

    Args:
        args: the program and its arguments.
        env: variables beside the harmless ones it inherits (``PATH``, ``HOME`` and the like).
        inherit_env: whether it inherits all of ours; they may hold secrets.
        cwd: where it starts.
        stderr: where the lines of its standard error go: to the log ``mcptrio.server_stderr``, forward to our own
            standard error, nowhere (``drop``), or to a function. The last ones are kept for error messages in any case.
    """

    args: Sequence[str]
    env: Mapping[str, str] = field(factory=dict, repr=False)
    inherit_env: bool = False
    cwd: Path | str | None = None
    stderr: Stderr = "log"


@frozen(kw_only=True)
class Endpoint:
    """A server to reach over HTTP or WebSocket.

    Args:
        url: of its endpoint: ``http`` or ``https``; ``ws`` or ``wss`` for MCP over WebSocket.
        headers: sent with every request to it; of a WebSocket that is the one that opens it.
        auth: authorizes the requests: :class:`mcptrio.auth.OAuth`, another of :mod:`mcptrio.auth`, or one of your own.
        tls: what is trusted, and shown, instead of the system's certificates and nothing: a private authority, a
            certificate of the client.
        transport: ``http`` for Streamable HTTP, ``sse`` for HTTP with SSE; ``auto`` tries them in this order. Of a
            WebSocket always ``auto``.
    """

    url: str
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    auth: AuthMethod | ClientAuth | None = None
    tls: ssl.SSLContext | None = None
    transport: Literal["auto", "http", "sse"] = "auto"


@frozen(kw_only=True)
class Socket:
    """A server to reach on a socket, spoken with as over standard input and output: one message a line.

    Args:
        address: ``tcp://host:port``, ``tcp://[v6]:port`` or ``unix:/path``.
        connect_timeout: seconds for connecting.
    """

    address: str
    connect_timeout: float = 30.0


Target: TypeAlias = (
    "str | Sequence[str] | Command | Endpoint | Socket | Mapping[str, Any] | Server | RunningServer | MessageChannel"
)
"""What ``connect`` connects to."""
