"""Connects a client to a target: a URL, socket, command, ``mcp.json`` entry, server of this process, or channel.

Programs call :func:`connect`; the host opens its clients through :func:`openers`. The type of a target, or the
beginning of a string, decides what it is.

Source: MCP 2026-07-28, basic/transports; MCP 2024-11-05, basic/transports (HTTP with SSE).
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeGuard, TypeVar

import trio

from mcptrio.abc import AuthMethod, ClientAuth, MessageChannel
from mcptrio.abc.links import Link, LinkOpener, Receiver
from mcptrio.client.client import Client
from mcptrio.client.handlers import Handlers
from mcptrio.client.options import OWN_INFO, ClientOptions
from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.connecting.targets import Command, Endpoint, Socket, Target
from mcptrio.errors import AuthorizationError, ConfigError, MCPTrioError
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import open_hidden_nursery, require_trio
from mcptrio.protocol.model.lifecycle import Implementation
from mcptrio.protocol.model.logging import LEVELS, LoggingLevel
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.recording.link import recorded_opener
from mcptrio.recording.recorder import Recorder
from mcptrio.server import RunningServer
from mcptrio.transports.memory import memory_channel_pair
from mcptrio.transports.pipe import open_pipe_link

if TYPE_CHECKING:
    from mcptrio.server import Server

__all__ = ["connect", "openers"]

T = TypeVar("T")
P = ParamSpec("P")

_WEBSOCKET_SCHEMES = ("ws", "wss")
_WEBSOCKET_URLS = ("ws://", "wss://")
_URLS = ("http://", "https://", *_WEBSOCKET_URLS)
_SOCKETS = ("tcp://", "unix:")


class _PendingConnection(AbstractAsyncContextManager[T]):
    """A connection that ``async with`` opens. Other attributes raise an error that explains how to get the client."""

    def __init__(self, opening: AbstractAsyncContextManager[T]) -> None:
        self._opening = opening

    async def __aenter__(self) -> T:
        return await self._opening.__aenter__()

    def __aexit__(  # pyright: ignore[reportIncompatibleMethodOverride] - its result is awaited anyway
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Coroutine[Any, Any, bool | None]:
        return self._opening.__aexit__(kind, error, traceback)

    # Type checkers would accept any attribute if they saw __getattr__.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{name}: the client is not connected yet; write `async with connect(...) as client:`, and use"
                " `client` in that block",
                name=name,
                obj=self,
            )


def _pending(opening: Callable[P, AbstractAsyncContextManager[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
    @wraps(opening)
    def connecting(*args: P.args, **options: P.kwargs) -> AbstractAsyncContextManager[T]:
        return _PendingConnection(opening(*args, **options))

    return connecting


@_pending
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
    record: Path | str | None = None,
) -> AsyncIterator[Client]:
    """Connect to a server inside the context. The transport and the revision are detected.

    Args:
        target: An ``http``, ``https``, ``ws`` or ``wss`` URL; ``tcp://host:port`` or ``unix:/path``; a command as a
            string or list; a :class:`Command`, :class:`Endpoint` or :class:`Socket` for more options; an entry of
            ``mcp.json``; a :class:`Server` of this process, open or not; or an open channel.
        handlers: Answer the server's questions; by default the client declares no capabilities.
        timeouts: The times for which the client waits, in seconds.
        revision: The only acceptable protocol revision; by default the newest that both sides support.
        prefer: ``"handshake"`` selects the newest revision with a handshake if the server supports one. Some servers
            also speak 2026-07-28 but have tools that work only with requests to the client.
        restart: Reconnect, or restart the command, when the connection is lost; the pauses between attempts grow.
        ping_interval: Seconds without a message after which the server is pinged, in revisions with pings; 0 disables
            pings.
        log_level: Least severe level of log messages to receive in ``handlers.log``; by default the server decides.
        name: The server's name in errors and logs.
        info: Name and version of the client, sent to the server.
        cache_entries: Number of results to cache while the server declares them fresh; 0 disables the cache.
        record: Record all messages in this file, without secrets.

    Raises:
        ConfigError: The target or an option is invalid, or the recording cannot be written.
        TypeError: An option has the wrong type.
        ConnectionClosed, RequestFailed: The server cannot be started or reached.
        RemoteProtocolError: No revision in common.
        MCPError: The server refused the connection.
    """
    require_trio("mcptrio.connect")
    if revision is not None and revision not in REVISIONS:
        raise ConfigError(f"revision: expected one of {', '.join(REVISIONS)}, got {revision!r}")
    if prefer not in (None, "handshake"):
        raise ConfigError(f"prefer: expected 'handshake', got {prefer!r}")
    if log_level is not None and log_level not in LEVELS:
        raise ConfigError(f"log_level: expected one of {', '.join(LEVELS)}, got {log_level!r}")
    target = _resolve(target)
    link_openers, default_name, can_restart = openers(target)
    # A channel cannot be opened twice, and a server that this client opens ends with the connection.
    if restart and not can_restart:
        raise ConfigError("restart: not supported for a channel or an in-process server; pass a command or a URL")
    options = ClientOptions(
        name=name or default_name,
        info=expect(info or OWN_INFO, Implementation, "connect: info"),
        handlers=expect(handlers or Handlers(), Handlers, "connect: handlers"),
        timeouts=expect(timeouts or ClientTimeouts(), ClientTimeouts, "connect: timeouts"),
        revision=revision,
        restart=restart,
        ping_interval=ping_interval,
        log_level=log_level,
        cache_entries=cache_entries,
        prefers_handshake=prefer is not None,
    )
    recorder = Recorder(record, name=options.name, side="client") if record is not None else None
    if recorder is not None:
        link_openers = [recorded_opener(each, recorder, _transport_name(target)) for each in link_openers]
    client, client_scope = Client(link_openers, options), trio.CancelScope()

    async def run_client(*, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        with client_scope:
            await client.run(task_status=task_status)

    async with recorder.running() if recorder is not None else nullcontext(), open_hidden_nursery() as nursery:
        failure = await nursery.start(run_client)
        if failure is not None:
            raise failure
        # The client outlives the block if the caller is cancelled, so that it can still notify the server of the
        # cancelled calls.
        client_scope.shield = True
        try:
            yield client
        finally:
            client_scope.cancel()


def openers(target: Target) -> tuple[list[LinkOpener], str, bool]:
    """Return how to reach a target.

    Returns:
        The openers in the order in which to try them; the target's name; True if it can be reached again after a loss.

    Raises:
        ConfigError: The value is not a valid target.
    """
    target = _resolve(target)
    if isinstance(target, Command):
        if not target.args:
            raise ConfigError("target: expected a command, got an empty one")
        return [_command_opener(target)], Path(target.args[0]).name, True
    if isinstance(target, Endpoint):
        return *_endpoint_openers(target), True
    if isinstance(target, Socket):
        return [_socket_opener(target)], target.address, True
    if _is_server(target):
        return [_server_opener(target)], target.info.name, target.is_open
    if _is_channel(target):
        return [partial(open_pipe_link, target)], target.name, False
    raise ConfigError(
        f"target: expected a URL, a command, a Server, an entry of mcp.json or a channel, got {type(target).__name__}"
        + (" (adapt_channel makes a channel of it)" if isinstance(target, trio.abc.AsyncResource) else "")
    )


def _resolve(target: Target) -> Target:
    """Return a target as an object: a URL as an Endpoint, a command as a Command, an entry of mcp.json as either."""
    if isinstance(target, str):
        return _parse_target(target)
    if isinstance(target, Mapping):
        from mcptrio.connecting.mcp_json import read_entry

        return read_entry(target)
    if isinstance(target, Sequence):
        return Command(args=tuple(target))
    # A RunningServer ends with its block; the Server can tell whether it is still open.
    return target.server if isinstance(target, RunningServer) else target


def _transport_name(target: Target) -> str:
    """Return the name of the transport for a recording."""
    if isinstance(target, Command):
        return "stdio"
    if isinstance(target, Endpoint):
        return "websocket" if target.url.startswith(_WEBSOCKET_URLS) else "http"
    if isinstance(target, Socket):
        return target.address.partition(":")[0]
    return target.name.partition(" ")[0] if _is_channel(target) else "memory"


def _is_server(target: object) -> TypeGuard[Server]:
    return hasattr(target, "supervisor")


def _is_channel(target: object) -> TypeGuard[MessageChannel]:
    # trio.abc.Channel has the same methods but carries any objects; adapt_channel makes a MessageChannel of one.
    return hasattr(target, "receive") and hasattr(target, "send") and not isinstance(target, trio.abc.Channel)


def _parse_target(text: str) -> Command | Endpoint | Socket:
    if text.startswith(_URLS):
        return Endpoint(url=text)
    if text.startswith(_SOCKETS):
        return Socket(address=text)
    try:
        return Command(args=tuple(shlex.split(text)))
    except ValueError as error:
        # The text may contain secrets, so the error does not repeat it.
        raise ConfigError(f"target: expected a command as a shell would read it: {error}") from error


# Each opener takes a receiver and opens a new link on every call. Their imports are local, so that a client loads only
# the transports that it uses.


def _pipe_opener(open_channel: Callable[[], AbstractAsyncContextManager[MessageChannel]]) -> LinkOpener:
    @asynccontextmanager
    async def open_link(receive: Receiver) -> AsyncIterator[Link]:
        async with open_channel() as channel:
            # The channel of a child process knows the exit status and the last lines of standard error; the pipe only
            # knows that the stream ended.
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
    """Return the openers of an endpoint, and its name: the URL without credentials and query."""
    from mcptrio.http.client.endpoint import HTTPEndpoint as URL
    from mcptrio.http.client.headers import ClientHeaders

    is_websocket = endpoint.url.startswith(_WEBSOCKET_URLS)
    try:
        url = URL.parse(endpoint.url, _WEBSOCKET_SCHEMES) if is_websocket else URL.parse(endpoint.url)
        # Only for its checks: an invalid header is then an error before the first request.
        ClientHeaders(url, endpoint.headers, authorized=endpoint.auth is not None)
        auth = _client_auth(endpoint, url.origin + url.target)
    except ValueError as error:
        raise ConfigError(f"target: {error}") from error
    if is_websocket and endpoint.transport != "auto":
        raise ConfigError(f"transport: expected auto for a {url.scheme} URL, got {endpoint.transport}")

    def opening(function: Callable[..., T], *args: Any) -> T:
        from mcptrio.http.client.dialer import Dialing

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

    if is_websocket:
        return [_pipe_opener(websocket)], url.name
    link_openers: dict[str, list[LinkOpener]] = {"http": [streamable], "sse": [_pipe_opener(sse)]}
    # Servers before 2025-03-26 refuse the POST of Streamable HTTP with 4xx; the client then tries HTTP with SSE.
    link_openers["auto"] = [*link_openers["http"], *link_openers["sse"]]
    return link_openers[endpoint.transport], url.name


def _client_auth(endpoint: Endpoint, url: str) -> ClientAuth | None:
    """Return the ClientAuth of an endpoint, created for this server.

    Its HTTP client can reach the server itself and the servers that the AuthMethod names.

    Raises:
        ConfigError: The AuthMethod cannot authorize requests to this server.
    """
    auth = endpoint.auth
    if auth is None or _is_client_auth(auth):
        return auth
    if not _is_auth_method(auth):
        raise ConfigError(f"auth: expected an AuthMethod or a ClientAuth, got {type(auth).__name__}")
    from mcptrio.http.client.address_policy import AddressPolicy
    from mcptrio.http.client.fetcher import Fetcher

    # A WebSocket is opened with an HTTP request, which carries the credentials.
    url = url.replace("ws", "http", 1) if url.startswith(_WEBSOCKET_URLS) else url
    try:
        # The metadata of a server may name any address; the policy limits where the client follows it.
        return auth.client_auth(url, Fetcher(AddressPolicy.around(url, origins=auth.named_servers), tls=endpoint.tls))
    except AuthorizationError as error:
        raise ConfigError(f"target: {error}") from error


def _is_client_auth(auth: AuthMethod | ClientAuth) -> TypeGuard[ClientAuth]:
    return hasattr(auth, "challenged")


def _is_auth_method(auth: object) -> TypeGuard[AuthMethod]:
    return hasattr(auth, "client_auth")


def _socket_opener(target: Socket) -> LinkOpener:
    from mcptrio.transports.socket_client import check_socket_address, open_socket_channel

    try:
        check_socket_address(target.address)
    except ValueError as error:
        raise ConfigError(f"target: {error}") from error
    return _pipe_opener(partial(open_socket_channel, target.address, connect_timeout=target.connect_timeout))


def _server_opener(server: Any) -> LinkOpener:
    @asynccontextmanager
    async def open_channel() -> AsyncIterator[MessageChannel]:
        ours, theirs = memory_channel_pair()
        # Errors of the client name the channel.
        ours.name = server.info.name
        # An open server serves one more channel. A server that is not open is opened for the lifetime of the link.
        opened = nullcontext(RunningServer(server)) if server.is_open else server.open()
        async with opened as running, open_hidden_nursery() as nursery:
            nursery.start_soon(running.serve, theirs)  # noqa: ASYNC113 - the channel keeps messages sent before it runs
            yield ours

    return _pipe_opener(open_channel)
