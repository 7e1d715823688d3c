"""Connecting a client to a target: a URL, a socket, a command, a server of this process, an entry of ``mcp.json``, a
channel.

``connect`` is here; the host opens its clients through the same openers.
The one rule: what a target is, is told by its type alone, and a text by its beginning; nothing is tried out.

Source: MCP 2026-07-28, basic/transports; MCP 2024-11-05, basic/transports (HTTP with SSE).
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeGuard, TypeVar

import trio

from mcptrio.abc import AuthMethod, ClientAuth, MessageChannel
from mcptrio.abc.links import Link, LinkOpener, Receiver
from mcptrio.client.client import Client
from mcptrio.client.handlers import Handlers
from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.connecting.targets import Command, Endpoint, Socket, Target
from mcptrio.errors import AuthorizationError, ConfigError
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import open_hidden_nursery, require_trio
from mcptrio.protocol.model.lifecycle import Implementation
from mcptrio.protocol.model.logging import LEVELS, LoggingLevel
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.server import RunningServer
from mcptrio.transports.memory import memory_channel_pair
from mcptrio.transports.pipe import open_pipe_link

if TYPE_CHECKING:
    from mcptrio.server import Server

__all__ = ["connect", "openers"]

T = TypeVar("T")
P = ParamSpec("P")

_WEBSOCKET = ("ws", "wss")
_URLS = ("http://", "https://", "ws://", "wss://")
_SOCKETS = ("tcp://", "unix:")


class _Connecting(AbstractAsyncContextManager[T]):
    """A connection that ``async with`` opens. Whatever else is asked of it is meant for the client."""

    def __init__(self, opening: AbstractAsyncContextManager[T]) -> None:
        self._opening = opening

    async def __aenter__(self) -> T:
        return await self._opening.__aenter__()

    def __aexit__(  # pyright: ignore[reportIncompatibleMethodOverride] - its result is awaited all the same
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, bool | None]:
        return self._opening.__aexit__(kind, error, traceback)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{name}: the client is not connected yet; write `async with connect(...) as client:`, and use"
                " `client` in that block",
                name=name,
                obj=self,
            )


def _connecting(opening: Callable[P, AbstractAsyncContextManager[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
    @wraps(opening)
    def connecting(*args: P.args, **options: P.kwargs) -> AbstractAsyncContextManager[T]:
        return _Connecting(opening(*args, **options))

    return connecting


@_connecting
@asynccontextmanager
async def connect(
    target: Target,
    *,
    handlers: Handlers | None = None,
    timeouts: ClientTimeouts | None = None,
    revision: str | None = None,
    prefer: Literal["handshake"] | None = None,
    restart: bool = False,
    ping_interval: float = 30.0,
    log_level: LoggingLevel | None = None,
    name: str | None = None,
    info: Implementation | None = None,
    cache_entries: int = 256,
) -> AsyncIterator[Client]:
    """Connect to a server for as long as the context lasts; how, and in which revision, is found out.

    Args:
        target: an http, https, ws or wss URL; ``tcp://host:port`` or ``unix:/path``; a command as a text or a list; a
            :class:`Command`, :class:`Endpoint` or :class:`Socket`, which say more; an entry of ``mcp.json``; a
            :class:`Server` of this process, opened or not; or an open channel.
        handlers: what the client does for the server; by default nothing.
        revision: speak this one or fail; by default the newest that both speak.
        prefer: ``handshake`` for the newest revision with a handshake, if the server speaks one: some servers that
            speak 2026-07-28 too have tools that only work with requests to the client.
        restart: whether a connection that ends is opened again, a command started again, later each time.
        ping_interval: seconds of silence after which the server is pinged, where the revision has pings; 0 for never.
        log_level: have log messages of this level and above sent to ``handlers.log``; by default the server decides.
        name: what errors and logs call the server.
        info: what the server is told of us.
        cache_entries: answers that are kept while they are fresh; 0 for none.

    Raises:
        ConfigError: the target or an option makes no sense.
        TypeError: an option is of another class.
        ConnectionClosed, RequestFailed: the server cannot be started or reached.
        RemoteProtocolError: no revision in common.
        MCPError: the server refused.
    """
    require_trio("mcptrio.connect", side="client")
    if revision is not None and revision not in REVISIONS:
        raise ConfigError(f"revision: expected one of {', '.join(REVISIONS)}, got {revision!r}")
    if prefer not in (None, "handshake"):
        raise ConfigError(f"prefer: expected 'handshake', got {prefer!r}")
    if log_level is not None and log_level not in LEVELS:
        raise ConfigError(f"log_level: expected one of {', '.join(LEVELS)}, got {log_level!r}")
    ways, default_name, can_restart = openers(target)
    if restart and not can_restart:
        raise ConfigError("restart: a channel cannot be opened again, nor a server that is open only for this client")
    handlers = expect(handlers or Handlers(), Handlers, "connect: handlers")
    client = Client(
        ways,
        name=name or default_name,
        info=expect(info or _own_info(), Implementation, "connect: info"),
        handlers=handlers,
        timeouts=expect(timeouts or ClientTimeouts(), ClientTimeouts, "connect: timeouts"),
        revision=revision,
        restart=restart,
        ping_interval=ping_interval,
        log_level=log_level,
        cache_entries=cache_entries,
        prefers_handshake=prefer is not None,
    )
    async with open_hidden_nursery() as nursery:
        start: Callable[..., Awaitable[None]] = client.run
        failure = await nursery.start(start)
        if failure is not None:
            raise failure
        yield client


def openers(target: Target) -> tuple[list[LinkOpener], str, bool]:
    """The ways to a target, in the order in which they are tried; its name; whether it can be reached again.

    Raises:
        ConfigError: it is no target.
    """
    if isinstance(target, str):
        target = _written(target)
    if isinstance(target, Mapping):
        target = _entry(target)
    if isinstance(target, Command):
        if not target.args:
            raise ConfigError("target: expected a command, got an empty one")
        return [_command_opener(target)], Path(target.args[0]).name, True
    if isinstance(target, Endpoint):
        return *_endpoint_openers(target), True
    if isinstance(target, Socket):
        return [_socket_opener(target)], target.address, True
    if isinstance(target, Sequence):
        return openers(Command(args=tuple(target)))
    if isinstance(target, RunningServer):
        target = target.server
    if _is_server(target):
        return [_server_opener(target)], target.info.name, target.is_open
    if _is_channel(target):
        return [partial(open_pipe_link, target)], target.name, False
    raise ConfigError(
        f"target: expected a URL, a command, a Server, an entry of mcp.json or a channel, got {type(target).__name__}"
        + (" (adapt_channel makes a channel of it)" if isinstance(target, trio.abc.AsyncResource) else "")
    )


def _is_server(target: object) -> TypeGuard[Server]:
    """Told by what it has: to import the class, every client would load a server."""
    return hasattr(target, "supervisor")


def _is_channel(target: object) -> TypeGuard[MessageChannel]:
    return hasattr(target, "receive") and hasattr(target, "send") and not isinstance(target, trio.abc.Channel)


def _own_info() -> Implementation:
    from mcptrio.ground.version import __version__

    return Implementation(name="mcptrio", version=__version__)


def _written(text: str) -> Command | Endpoint | Socket:
    if text.startswith(_URLS):
        return Endpoint(url=text)
    return Socket(address=text) if text.startswith(_SOCKETS) else _command(text)


def _command(text: str) -> Command:
    try:
        return Command(args=tuple(shlex.split(text)))
    except ValueError as error:
        # The text may hold secrets, so the error does not repeat it.
        raise ConfigError(f"target: expected a command as a shell would read it: {error}") from error


def _entry(entry: Mapping[str, Any]) -> Command | Endpoint | Socket:
    from mcptrio.connecting.mcp_json import read_entry

    return read_entry(entry)


# Each opener is a function of a receiver, and opens a new link each time.


def _pipe_opener(open_channel: Callable[[], AbstractAsyncContextManager[MessageChannel]]) -> LinkOpener:
    @asynccontextmanager
    async def open_link(receive: Receiver) -> AsyncIterator[Link]:
        async with open_channel() as channel:
            # A child process knows better than its pipe why that has ended.
            why = getattr(channel, "closed_reason", None)
            async with open_pipe_link(channel, receive, why=why) as link:
                yield link

    return open_link


def _command_opener(command: Command) -> LinkOpener:
    def open_channel() -> AbstractAsyncContextManager[MessageChannel]:
        from mcptrio.transports.child import SERVER_LOG, open_child

        return open_child(
            command.args,
            env=command.env,
            inherit_env=command.inherit_env,
            cwd=command.cwd,
            stderr=SERVER_LOG if command.stderr == "log" else command.stderr,
        )

    return _pipe_opener(open_channel)


def _endpoint_openers(endpoint: Endpoint) -> tuple[list[LinkOpener], str]:
    """The ways to an endpoint, and its name: the URL without what may be secret."""
    from mcptrio.http.client.endpoint import HTTPEndpoint as URL
    from mcptrio.http.client.headers import ClientHeaders

    socket = endpoint.url.startswith(_URLS[2:])
    try:
        url = URL.parse(endpoint.url, _WEBSOCKET) if socket else URL.parse(endpoint.url)
        ClientHeaders(url, endpoint.headers, authorized=endpoint.auth is not None)
        auth = _authorized(endpoint, url.origin + url.target)
    except ValueError as error:
        raise ConfigError(f"target: {error}") from error
    if socket and endpoint.transport != "auto":
        raise ConfigError(f"transport: expected auto for a {url.scheme} URL, got {endpoint.transport}")

    def opening(function: Callable[..., T], *args: Any) -> T:
        from mcptrio.http.client.dialing import Dialing

        return function(endpoint.url, *args, headers=endpoint.headers, auth=auth, dialing=Dialing(tls=endpoint.tls))

    def streamable(receive: Receiver) -> AbstractAsyncContextManager[Link]:
        from mcptrio.http.client.link import open_http_link

        return opening(open_http_link, receive)

    def sse() -> AbstractAsyncContextManager[MessageChannel]:
        from mcptrio.http.client.legacy_sse import open_sse_channel

        return opening(open_sse_channel)

    def websocket() -> AbstractAsyncContextManager[MessageChannel]:
        from mcptrio.http.client.websocket import open_websocket_channel

        return opening(open_websocket_channel)

    if socket:
        return [_pipe_opener(websocket)], url.name
    ways: dict[str, list[LinkOpener]] = {"http": [streamable], "sse": [_pipe_opener(sse)]}
    ways["auto"] = [*ways["http"], *ways["sse"]]
    return ways[endpoint.transport], url.name


def _authorized(endpoint: Endpoint, url: str) -> ClientAuth | None:
    """What authorizes its requests: made for this server, and lent an HTTP client that reaches what it may name.

    Raises:
        ConfigError: there is nothing that could authorize requests to this server.
    """
    auth = endpoint.auth
    if auth is None or _is_ready(auth):
        return auth
    if not _is_method(auth):
        raise ConfigError(f"auth: expected an AuthMethod or a ClientAuth, got {type(auth).__name__}")
    from mcptrio.http.client.address_policy import AddressPolicy
    from mcptrio.http.client.fetcher import Fetcher

    # A WebSocket is opened with an HTTP request.
    url = url.replace("ws", "http", 1) if url.startswith(_URLS[2:]) else url
    try:
        return auth.client_auth(url, Fetcher(AddressPolicy.around(url, origins=auth.named_servers), tls=endpoint.tls))
    except AuthorizationError as error:
        raise ConfigError(f"target: {error}") from error


def _is_ready(auth: AuthMethod | ClientAuth) -> TypeGuard[ClientAuth]:
    return hasattr(auth, "challenged")


def _is_method(auth: object) -> TypeGuard[AuthMethod]:
    return hasattr(auth, "client_auth")


def _socket_opener(target: Socket) -> LinkOpener:
    from mcptrio.transports.socket_dialing import check_socket_address, open_socket_channel

    try:
        check_socket_address(target.address)
    except ValueError as error:
        raise ConfigError(f"target: {error}") from error
    return _pipe_opener(partial(open_socket_channel, target.address, connect_timeout=target.connect_timeout))


def _server_opener(server: Any) -> LinkOpener:
    @asynccontextmanager
    async def open_channel() -> AsyncIterator[MessageChannel]:
        ours, theirs = memory_channel_pair()
        async with _opened(server) as running, open_hidden_nursery() as nursery:
            nursery.start_soon(running.serve, theirs)  # noqa: ASYNC113 - what is sent before waits in the channel
            yield ours

    return _pipe_opener(open_channel)


@asynccontextmanager
async def _opened(server: Any) -> AsyncIterator[RunningServer]:
    """A server that is open already serves one more; otherwise it is open for as long as the link."""
    if server.is_open:
        yield RunningServer(server)
    else:
        async with server.open() as running:
            yield running
