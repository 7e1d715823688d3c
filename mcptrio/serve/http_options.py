"""What an HTTP endpoint is told, whoever serves it, and the endpoint made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from mcptrio.abc import EventStore, SessionStore
from mcptrio.server import Server

if TYPE_CHECKING:
    from mcptrio.transports.http.app import Authenticate, HTTPApp
    from mcptrio.transports.http.exchange import HTTPLimits

__all__ = ["HTTPOptions", "make_http_app"]


@frozen(kw_only=True)
class HTTPOptions:
    """
    Args:
        path: of the endpoint.
        allow_hosts: names that ``Host`` may carry beside those of this machine; ``*`` for any.
        allow_origins: web pages that may call; ``*`` for any.
        limits: sizes, times and counts; the defaults of :class:`mcptrio.transports.http.exchange.HTTPLimits`.
        sessions: where handshake sessions are kept; by default in memory.
        events: where the messages of streams that can be resumed are kept; by default in memory.
        authenticate: from a request's headers to its principal; raises AuthorizationError for who may not.
    """

    path: str = "/mcp"
    allow_hosts: Sequence[str] = ()
    allow_origins: Sequence[str] = ()
    limits: HTTPLimits | None = None
    sessions: SessionStore | None = None
    events: EventStore | None = None
    authenticate: Authenticate | None = None


def make_http_app(server: Server, options: HTTPOptions, *, host: str = "127.0.0.1") -> HTTPApp:
    """The endpoint as an ASGI application, which is to be run (``run``) while it is used.

    Args:
        host: the address it is bound to, which ``Host`` may carry too.
    """
    from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore
    from mcptrio.transports.http.app import HTTPApp
    from mcptrio.transports.http.origins import HostPolicy, OriginPolicy

    return HTTPApp(
        server.supervisor,
        sessions=options.sessions or MemorySessionStore(),
        events=options.events or MemoryEventStore(),
        bus=server.bus,
        path=options.path,
        hosts=HostPolicy.for_bind(host, options.allow_hosts),
        origins=OriginPolicy.with_loopback(options.allow_origins),
        limits=options.limits,
        authenticate=options.authenticate,
    )
