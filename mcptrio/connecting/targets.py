"""Connection targets as values: a command to start, an HTTP endpoint, a socket.

Callers create them, or read them from ``mcp.json``; :mod:`mcptrio.connecting.connect` opens them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

from mcptrio.abc import AuthMethod, ClientAuth, MessageChannel

if TYPE_CHECKING:
    from mcptrio.server import RunningServer, Server

__all__ = ["Command", "Endpoint", "Socket", "Target", "target_digest"]

Stderr: TypeAlias = "Literal['log', 'forward', 'drop'] | Callable[[str], object]"
"""Where the lines of a server's standard error go: ``"log"`` to the log, ``"forward"`` to this process's standard
error, ``"drop"`` nowhere; or a function that receives each line."""


@frozen(kw_only=True)
class Command:
    """A server that the client starts as a child process and uses over its standard input and output.

    Args:
        args: The program and its arguments.
        env: Environment variables of the child, in addition to a few harmless inherited ones such as ``PATH`` and
            ``HOME``.
        inherit_env: Pass the whole environment of this process, which may contain secrets.
        cwd: Working directory of the child.
        stderr: The destination of the lines of its standard error: ``"log"`` for the logger ``mcptrio.server_stderr``,
            ``"forward"`` for this process's standard error, ``"drop"`` for none; or a function that receives each line.
            Error messages quote the last lines in any case.
    """

    args: Sequence[str]
    env: Mapping[str, str] = field(factory=dict, repr=False)
    inherit_env: bool = False
    cwd: Path | str | None = None
    stderr: Stderr = "log"


@frozen(kw_only=True)
class Endpoint:
    """A server that is reached over HTTP or WebSocket.

    Args:
        url: URL of the endpoint: ``http`` or ``https``; ``ws`` or ``wss`` for MCP over WebSocket.
        headers: Headers of every HTTP request; for a WebSocket, of the request that opens it.
        auth: Authorizes the requests: :class:`mcptrio.auth.OAuth`, another class of :mod:`mcptrio.auth`, or your own.
        tls: TLS configuration, for example a private certificate authority or a client certificate. By default the
            system's authorities are trusted and no certificate is sent.
        transport: ``"http"`` for Streamable HTTP, ``"sse"`` for the older HTTP with SSE; ``"auto"`` tries them in this
            order. Must be ``"auto"`` for a WebSocket.
    """

    url: str
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    auth: AuthMethod | ClientAuth | None = None
    tls: ssl.SSLContext | None = None
    transport: Literal["auto", "http", "sse"] = "auto"


@frozen(kw_only=True)
class Socket:
    """A server that listens on a TCP or Unix socket, with one message per line as over standard input and output.

    Args:
        address: ``tcp://host:port``, ``tcp://[v6]:port`` or ``unix:/path``.
        connect_timeout: Seconds within which the connection must be made.
    """

    address: str
    connect_timeout: float = 30.0


Target: TypeAlias = (
    "str | Sequence[str] | Command | Endpoint | Socket | Mapping[str, Any] | Server | RunningServer | MessageChannel"
)
"""Everything that ``connect`` accepts as a target."""


def target_digest(target: Target) -> bytes | None:
    """Return a digest by which a host recognizes a target; ``None`` for a channel or a server of this process."""
    if isinstance(target, Command):
        # NUL cannot occur in an argument, so two commands never have the same text.
        text = "\0".join(map(str, target.args))
    elif isinstance(target, Endpoint):
        text = target.url
    elif isinstance(target, str):
        text = target
    elif isinstance(target, Mapping):
        text = repr(sorted(target.items()))
    elif isinstance(target, Sequence):
        text = "\0".join(target)
    else:
        # A later process cannot connect to the same object, so a host need not recognize it.
        return None
    # A digest, because commands and URLs may contain secrets.
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
