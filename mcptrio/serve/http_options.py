"""What an HTTP endpoint is told, whoever serves it, and the endpoint made of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from mcptrio.abc import EventStore, Guard, SessionStore
from mcptrio.config import SQLITE_STORE, is_store
from mcptrio.expected import expect
from mcptrio.server import Server

if TYPE_CHECKING:
    from mcptrio.transports.http.app import HTTPApp
    from mcptrio.transports.http.exchange import HTTPLimits

__all__ = ["HTTPOptions", "make_http_app", "open_http_app"]

_SSE, _MESSAGES, _WEBSOCKET = "/sse", "/messages", "/ws"


@frozen(kw_only=True)
class HTTPOptions:
    """
    Args:
        path: of the endpoint.
        legacy_sse: whether clients of 2024-11-05 are served (HTTP with SSE): they open their stream on ``/sse`` and
            post their messages to ``/messages``.
        websocket: whether MCP over WebSocket is served, on ``/ws``.
        http2: whether HTTP/2 is spoken too: by Hypercorn, which takes the place of our own HTTP/1.1 then.
        access_log: whether each request is told to the log ``mcptrio.http.access``, at level INFO. Not with ``http2``.
        allow_hosts: names that ``Host`` may carry beside those of this machine; ``*`` for any.
        allow_origins: web pages that may call; ``*`` for any.
        forwarded: proxies that are trusted to say whose request it is, in ``X-Forwarded-For`` or ``Forwarded``, and
            over which scheme it came: addresses, networks like ``10.0.0.0/8``, ``unix`` for who connects to a Unix
            socket. They have to say it of every request. The rightmost address that is not theirs counts.
        limits: sizes, times and counts; the defaults of :class:`mcptrio.transports.http.exchange.HTTPLimits`.
        store: where handshake sessions and the messages of streams that can be resumed are kept: ``memory``, or
            ``sqlite:`` and the path of a file, with which they outlive the process.
        sessions: a store of your own for sessions; it wins over ``store``.
        events: the same for messages.
        auth: says who asks and who may, an :class:`mcptrio.auth.ResourceServer`; without, everybody may and is nobody.

    Raises:
        TypeError: ``limits`` is of another class.
        ValueError: ``path`` is one of those of ``legacy_sse``, there is no such store, or ``forwarded`` is none of
            these.
    """

    path: str = "/mcp"
    legacy_sse: bool = True
    websocket: bool = True
    http2: bool = False
    access_log: bool = False
    allow_hosts: Sequence[str] = ()
    allow_origins: Sequence[str] = ()
    forwarded: Sequence[str] = ()
    limits: HTTPLimits | None = None
    store: str = "memory"
    sessions: SessionStore | None = None
    events: EventStore | None = None
    auth: Guard | None = None

    def __attrs_post_init__(self) -> None:
        if self.limits is not None:
            from mcptrio.transports.http.exchange import HTTPLimits

            expect(self.limits, HTTPLimits, "HTTPOptions: limits")
        if self.legacy_sse and self.path.rstrip("/") in (_SSE, _MESSAGES):
            raise ValueError(f"path: expected another path than {_SSE} and {_MESSAGES}, or legacy_sse = false")
        if not is_store(self.store):
            raise ValueError(f"store: expected memory or sqlite:PATH, got {self.store!r}")
        if self.forwarded:
            from mcptrio.transports.http.addresses import Proxies

            Proxies.of(self.forwarded)


@asynccontextmanager
async def open_http_app(server: Server, options: HTTPOptions, *, host: str = "127.0.0.1") -> AsyncIterator[HTTPApp]:
    """The endpoint as an ASGI application, with its stores open. It is to be run (``run``) while it is used.

    Args:
        host: the address it is bound to, which ``Host`` may carry too.

    Raises:
        StoreFailed: the store cannot be opened.
    """
    if not options.store.startswith(SQLITE_STORE) or (options.sessions and options.events):
        yield make_http_app(server, options, host=host)
        return
    from mcptrio.stores.sqlite import open_sqlite_stores

    async with open_sqlite_stores(options.store.removeprefix(SQLITE_STORE)) as stores:
        sessions, events = options.sessions or stores.sessions, options.events or stores.events
        yield make_http_app(server, evolve(options, sessions=sessions, events=events), host=host)


def make_http_app(server: Server, options: HTTPOptions, *, host: str = "127.0.0.1") -> HTTPApp:
    """The same with stores that need no opening: those that are given, or else memory."""
    from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore
    from mcptrio.transports.http.addresses import Proxies
    from mcptrio.transports.http.app import HTTPApp
    from mcptrio.transports.http.legacy_sse import LegacyPaths
    from mcptrio.transports.http.origins import HostPolicy, OriginPolicy

    legacy = None
    if options.legacy_sse:
        legacy = LegacyPaths(stream=_SSE, messages=_MESSAGES)
    return HTTPApp(
        server.supervisor,
        sessions=options.sessions or MemorySessionStore(),
        events=options.events or MemoryEventStore(),
        bus=server.bus,
        path=options.path,
        legacy=legacy,
        websocket=_WEBSOCKET if options.websocket else None,
        hosts=HostPolicy.for_bind(host, options.allow_hosts),
        origins=OriginPolicy.with_loopback(options.allow_origins),
        limits=options.limits,
        guard=options.auth,
        proxies=Proxies.of(options.forwarded),
    )
