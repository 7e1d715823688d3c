"""What a client can connect to, as values: a command to start, or an endpoint to reach.

Made by callers and from ``mcp.json``; :mod:`mcptrio.connecting` opens them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

from mcptrio.abc import ClientAuth, MessageChannel

if TYPE_CHECKING:
    from mcptrio.server import Server

__all__ = ["Command", "Endpoint", "Target"]

Stderr: TypeAlias = "Literal['log', 'forward', 'drop'] | Callable[[str], object]"


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
    """A server to reach over HTTP.

    Args:
        url: of its endpoint.
        headers: sent with every request to it.
        auth: authorizes the requests.
        transport: ``http`` for Streamable HTTP, ``sse`` for HTTP with SSE; ``auto`` tries them in this order.
    """

    url: str
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    auth: ClientAuth | None = None
    transport: Literal["auto", "http", "sse"] = "auto"


Target: TypeAlias = "str | Sequence[str] | Command | Endpoint | Mapping[str, Any] | Server | MessageChannel"
