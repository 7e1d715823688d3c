"""Streamable HTTP as an ASGI application: every revision on one path, with health and readiness.

:mod:`mcptrio.http.engine.server` serves it, or another ASGI application on Trio mounts it. The application reads the
request, decides with the rules what to do, and passes the message on. The kind of a path decides which checks a request
must pass. Their order is that of the columns, and a number is the status if the check fails:

===========  =======  ========================  ========================  ==================  =======================
path         rate     ``Host``                  ``Origin``                method and head     place, then guard
===========  =======  ========================  ========================  ==================  =======================
endpoint     429      421 if not served         403 if not allowed        as MCP has them     both; 503, 401, 403
page         429      421, except for probes    allowed ones may read     405                 none
document     429      421                       all may read              405                 none
plugin       429      421                       not checked               not checked         a place; 503
unknown      429      not checked               allowed ones may read     404                 none
===========  =======  ========================  ========================  ==================  =======================

A preflight request from an origin that may read the response is answered before these checks.

Source: MCP 2026-07-28, 2025-11-25 and 2024-11-05, basic/transports; ASGI 3.0; Fetch standard, "HTTP extensions" (CORS).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from enum import Enum
from functools import lru_cache, partial
from typing import Any, Final

import trio
from attrs import frozen

from mcptrio.abc import ASGIApp, Bus, Engine, EventStore, Guard, Principal, SessionStore
from mcptrio.abc.tracing import TRACING
from mcptrio.errors import AuthorizationError, ConnectionClosed, Overloaded, RateLimited
from mcptrio.ground.networks import network_of
from mcptrio.ground.shares import Share, Shares
from mcptrio.http.client_address import Proxies
from mcptrio.http.exchange import EXTENSION, HTTPExchange
from mcptrio.http.headers import Headers
from mcptrio.http.server.asgi import ASGIExchange, Receive, Scope, Send
from mcptrio.http.server.cors import answer_preflight, every_origin, is_preflight, one_origin
from mcptrio.http.server.decoder import MAX_UNCOUNTED_BYTES, MessageDecoder
from mcptrio.http.server.exchange import Exchange, read_headers
from mcptrio.http.server.front_page import show_front_page, wants_front_page
from mcptrio.http.server.keepalives import Keepalives
from mcptrio.http.server.legacy_sse import LegacyPaths, LegacySSE
from mcptrio.http.server.limits import HTTPLimits
from mcptrio.http.server.origins import HostPolicy, OriginPolicy
from mcptrio.http.server.owner_rates import OwnerRates
from mcptrio.http.server.readiness import readiness_page
from mcptrio.http.server.reauthorization import Reauthorization
from mcptrio.http.server.request_auth import refusal_of, request_head
from mcptrio.http.server.request_tracing import serve_traced
from mcptrio.http.server.rules import (
    STREAMABLE,
    AnswerMessage,
    Decision,
    HTTPRefusal,
    Initialize,
    check_bodiless,
    check_head,
    check_page,
    check_post,
    check_upgrade,
)
from mcptrio.http.server.sessions import Sessions
from mcptrio.http.server.stateful import serve_session
from mcptrio.http.server.stateless import answer
from mcptrio.http.server.websocket import Upgrade, serve_websocket
from mcptrio.protocol.jsonrpc import decode
from mcptrio.protocol.messages import Incoming, Request

__all__ = ["HTTPApp"]

_MAX_HOSTS: Final = 100
"""Values of ``Host`` for which the result of the check is cached."""
_NO_EXTENSIONS: Final[Mapping[str, Any]] = {}

_Kind = Enum("_Kind", "ENGINE PAGE DOCUMENT PLUGIN UNKNOWN")
"""The kind of a path; see the table above."""


@frozen
class _Path:
    kind: _Kind
    serve: Callable[[Exchange, Scope, bytes, Principal | None], Awaitable[None]]
    """Answers an exchange. For the endpoint: raises ConnectionClosed, or Overloaded before it has sent anything."""
    methods: tuple[str, ...] = ("GET", "HEAD")
    any_host: bool = False
    """True if ``Host`` is not checked: probes send an IP address."""


class HTTPApp:
    """The ASGI application. :meth:`run` must be running for handshake sessions.

    Args:
        path: The path of the endpoint.
        legacy: The paths of HTTP with SSE, the transport of 2024-11-05; ``None`` to leave it out.
        websocket: The path of WebSockets; ``None`` to leave them out.
        hosts: Accepted ``Host`` names; by default loopback only.
        origins: Web pages that may send requests; by default those of this machine only.
        bus: Carries messages to the other replicas; ``None`` if this process is the only one.
        guard: Authenticates and authorizes requests; without one, every request is anonymous.
        proxies: Proxies whose forwarding headers are trusted; none by default.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        sessions: SessionStore,
        events: EventStore,
        bus: Bus | None = None,
        path: str = "/mcp",
        legacy: LegacyPaths | None = None,
        websocket: str | None = "/ws",
        hosts: HostPolicy | None = None,
        origins: OriginPolicy | None = None,
        limits: HTTPLimits | None = None,
        guard: Guard | None = None,
        proxies: Proxies | None = None,
    ) -> None:
        self._engine = engine
        self._limits = limits or HTTPLimits()
        self._keepalives = Keepalives(engine, {self._limits.keepalive_interval, self._limits.stream_delay})
        self._sessions = Sessions(engine, sessions, events, bus, self._limits, self._keepalives)
        self._websocket = None if websocket is None else websocket.rstrip("/")
        self._is_host_served = lru_cache(_MAX_HOSTS)((hosts or HostPolicy()).allows)
        self._origins = origins or OriginPolicy()
        self._guard = guard
        self._reauthorization = Reauthorization(engine, guard) if guard is not None else None
        self._proxies = proxies or None
        limits = self._limits
        is_limited = limits.address_rate > 0
        self._rates = OwnerRates(limits.address_rate, limits.address_burst, limits.addresses) if is_limited else None
        self._session_rates = OwnerRates(limits.session_rate, limits.session_burst, limits.addresses)
        self._decoder = MessageDecoder(limits.message, limits.parse_share, limits.addresses)
        self._front_page = _Path(_Kind.PAGE, partial(show_front_page, path))
        self._endpoint_places = Shares(self._limits.streams)
        self._plugin_places = Shares(self._limits.streams)
        """The places of the plugins' own routes, which are separate from those of the endpoint."""
        self._is_stopping = False
        self._endpoint = _Path(_Kind.ENGINE, self._answer, STREAMABLE)
        paths = {path: self._endpoint}
        if legacy is not None:
            sse = LegacySSE(engine, legacy, self._decoder, self._sessions.shared)
            paths |= {
                legacy.stream: _Path(_Kind.ENGINE, sse.open, ("GET",)),
                legacy.messages: _Path(_Kind.ENGINE, sse.post, ("POST",)),
            }
        self._paths = {name.rstrip("/"): each for name, each in paths.items()}
        if self._websocket is not None:
            self._paths.setdefault(self._websocket, _Path(_Kind.PAGE, _ask_for_upgrade))
        for name, document in (guard.documents if guard is not None else {}).items():
            self._paths.setdefault(name, _Path(_Kind.DOCUMENT, partial(_show_document, document)))
        self._paths.setdefault("/healthz", _Path(_Kind.PAGE, _show_liveness, any_host=True))
        self._paths.setdefault("/readyz", _Path(_Kind.PAGE, self._show_readiness, any_host=True))

    @property
    def exchanges(self) -> int:
        """The number of open exchanges."""
        return self._endpoint_places.taken

    def announce_stop(self) -> None:
        """Announce on ``/readyz`` that the server is about to stop, and continue to serve."""
        self._is_stopping = True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks that outlive a request, such as session streams and expiry. Returns only when cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keepalives.run)
            if self._reauthorization is not None:
                nursery.start_soon(self._reauthorization.run)
            await self._sessions.run(task_status=task_status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve_request(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _serve_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._serve_upgrade(scope, receive, send)

    async def _serve_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        http: HTTPExchange | None = scope.get("extensions", _NO_EXTENSIONS).get(EXTENSION)
        sender: object = getattr(send, "__self__", None)
        if http is None or sender is not http:
            # The server is another ASGI server, or a middleware has wrapped `send` and must see the response.
            http = ASGIExchange(receive, send, self._limits.write_timeout)
        exchange = self._exchange(scope, http)
        path = self._find(scope, exchange.headers, receive, send)
        may_read = self._allow_origin(exchange, path)
        if may_read and is_preflight(scope["method"], exchange.headers):
            await answer_preflight(exchange, path.methods)
            return
        await self._serve(path, exchange, scope)
        if not (exchange.is_answered or exchange.is_kept_open or path.kind is _Kind.PLUGIN):
            # The client disconnected before the first byte. Frameworks around an ASGI application report a missing
            # response as an error, so send one, with the status that nginx logs in this case.
            with suppress(OSError):
                await exchange.respond(499)

    async def _serve_upgrade(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a WebSocket, after the same checks as for a request."""
        upgrade = Upgrade(scope, receive, send)
        if (await receive())["type"] != "websocket.connect":
            return
        exchange = self._exchange(scope, ASGIExchange(receive, upgrade.respond, self._limits.write_timeout))
        is_ours = self._path_in(scope) == self._websocket
        path = _Path(_Kind.ENGINE, partial(self._open_websocket, upgrade)) if is_ours else _UNKNOWN_PATH
        await self._serve(path, exchange, scope)

    def _exchange(self, scope: Scope, http: HTTPExchange) -> Exchange:
        if self._proxies is not None:
            # The scope then has the address and scheme of the client, also for the routes of plugins.
            self._proxies.apply_forwarded(scope)
        client = scope.get("client")
        # A Unix socket has a path instead of an address, so its requests are not counted for a client.
        owner = network_of(client[0]) if client and client[1] is not None else None
        return Exchange(read_headers(scope["headers"]), self._limits, http, owner)

    def _find(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> _Path:
        name = self._path_in(scope)
        path = self._paths.get(name)
        if path is not None:
            return path
        app = self._engine.route(name)
        if app is not None:
            return _Path(_Kind.PLUGIN, partial(_pass_on, app, receive, send))
        return self._front_page if name == "" and wants_front_page(scope["method"], headers) else _UNKNOWN_PATH

    def _path_in(self, scope: Scope) -> str:
        """Return the path below the mount point, without a trailing slash."""
        # ASGI 3 leaves the mount point in the path, but some servers and proxies remove it.
        path: str = scope["path"].rstrip("/")
        root: str = scope.get("root_path", "").rstrip("/")
        if not root or not (path == root or path.startswith(root + "/")):
            return path
        below = path[len(root) :]
        # A proxy may have removed the mount point from a path that begins with the same segment again.
        if not self._is_known(below) and self._is_known(path):
            return path
        return below

    def _is_known(self, path: str) -> bool:
        return path in self._paths or self._engine.route(path) is not None

    def _allow_origin(self, exchange: Exchange, path: _Path) -> bool:
        """Let a web page of an allowed origin read the response of any status. Return whether the origin is allowed.

        Source: Fetch standard, "CORS protocol and HTTP responses".
        """
        origin = exchange.headers.get("origin")
        if origin is None or path.kind is _Kind.PLUGIN:
            return False
        is_public = path.kind is _Kind.DOCUMENT
        if not (is_public or self._origins.allows(origin)):
            return False
        exchange.common_headers += every_origin() if is_public else one_origin(origin)
        return True

    async def _serve(self, path: _Path, exchange: Exchange, scope: Scope) -> None:
        """Check a request in the order of the table, and have it answered."""
        # Checked before a place is taken, because refused requests must not use up places.
        refusal = self._check(path, exchange, scope)
        if refusal is not None:
            await exchange.refuse(refusal)
            return
        if path.kind is not _Kind.ENGINE and path.kind is not _Kind.PLUGIN:
            await path.serve(exchange, scope, b"", None)
            return
        places = self._endpoint_places if path.kind is _Kind.ENGINE else self._plugin_places
        place = places.take(exchange.owner)
        if place is None:
            await exchange.refuse(self._too_many_exchanges())
            return
        try:
            await (self._admit if path.kind is _Kind.ENGINE else _serve_plugin)(path, exchange, scope, place)
        finally:
            if exchange.is_kept_open:
                exchange.on_close = partial(_give_back, places, exchange, place)
            else:
                _give_back(places, exchange, place)

    def _check(self, path: _Path, exchange: Exchange, scope: Scope) -> HTTPRefusal | None:
        """Check a request before it takes a place; ``None`` accepts it."""
        headers, limits, method = exchange.headers, self._limits, scope.get("method", "GET")
        if self._rates is not None and (wait := self._rates.wait(exchange.owner)) is not None:
            return HTTPRefusal.overloaded(RateLimited("too many requests from this address", retry_after=wait))
        if path.kind is _Kind.UNKNOWN:
            return HTTPRefusal(404, reason="path")
        if not (path.any_host or self._is_host_served(headers.get("host"))):
            return HTTPRefusal.because(421, "Host: not served here")
        if path.kind is _Kind.PLUGIN:
            return None
        if path.kind is not _Kind.ENGINE:
            return check_page(method, path.methods)
        origin = headers.get("origin")
        if origin is not None and not self._origins.allows(origin):
            return HTTPRefusal.because(403, "Origin: not allowed", reason="origin")
        if scope["type"] == "websocket":
            return check_upgrade(headers, scope.get("subprotocols") or (), header_bytes=limits.header_bytes)
        return check_head(
            method,
            headers,
            methods=path.methods,
            header_bytes=limits.header_bytes,
            body_bytes=limits.message.bytes,
        )

    def _too_many_exchanges(self) -> HTTPRefusal:
        limit = self._limits.streams
        return HTTPRefusal.overloaded(
            Overloaded(f"too many exchanges: the limit is {limit}, and half of it for one client")
        )

    async def _admit(self, path: _Path, exchange: Exchange, scope: Scope, place: Share) -> None:
        """Have the guard authorize the request, read the body, and answer."""
        principal = await self._authorize(path, exchange, scope)
        if isinstance(principal, HTTPRefusal):
            await exchange.refuse(principal)
            return
        # Users behind one proxy share its address. From here on, the place is counted for the principal.
        if principal is not None and not self._endpoint_places.hand_over(place, repr(principal.identity)):
            await exchange.refuse(self._too_many_exchanges())
            return
        exchange.owner = place.owner
        try:
            body = b"" if scope["type"] == "websocket" else await exchange.body()
            if isinstance(body, HTTPRefusal):
                await exchange.refuse(body)
            else:
                serve = path.serve if TRACING.tracer is None else partial(serve_traced, path.serve)
                await serve(exchange, scope, body, principal)
        except Overloaded as error:
            await exchange.overloaded(error)
        except ConnectionClosed:
            pass  # the client has disconnected

    async def _authorize(self, path: _Path, exchange: Exchange, scope: Scope) -> Principal | HTTPRefusal | None:
        """Return the principal of the request; ``None`` without a guard, or for an anonymous request."""
        if self._guard is None:
            return None
        head = request_head(scope, exchange.headers, is_outside_endpoint=path is not self._endpoint)
        try:
            principal = await self._guard.admit(head)
        except AuthorizationError as error:
            return refusal_of(error)
        except Overloaded as error:
            return HTTPRefusal.overloaded(error)
        if self._reauthorization is not None and principal is not None:
            exchange.admitted = self._reauthorization.admit(head, principal)
        return principal

    async def _answer(self, exchange: Exchange, scope: Scope, body: bytes, principal: Principal | None) -> None:
        method: str = scope["method"]
        decision: Decision
        if method == "POST":
            if len(body) <= MAX_UNCOUNTED_BYTES:
                incoming = decode(body, self._limits.message, owner=exchange.owner)
            else:
                incoming = self._decoder.decode(body, exchange.owner)
            exchange.describe(incoming)
            decision = check_post(exchange.headers, incoming, self._engine.param_headers)
        else:
            incoming = None
            decision = check_bodiless(method, exchange.headers)
        if isinstance(decision, HTTPRefusal):
            await exchange.refuse(decision)
        elif (
            incoming is not None and (refusal := self._missing_scopes(exchange, scope, incoming, principal)) is not None
        ):
            await exchange.refuse(refusal)
        elif isinstance(decision, AnswerMessage):
            await answer(self._engine, exchange, decision.message, principal, self._keepalives)
        elif isinstance(decision, Initialize) and (wait := self._session_rates.wait(exchange.owner)) is not None:
            refused = RateLimited("too many new sessions from this client", retry_after=wait)
            await exchange.overloaded(refused, decision.request.id)
        else:
            try:
                await serve_session(self._sessions, exchange, decision, principal)
            except Overloaded as error:
                id = incoming.id if isinstance(incoming, Request) else None
                await exchange.overloaded(error, id)

    async def _open_websocket(
        self, upgrade: Upgrade, exchange: Exchange, _scope: Scope, _body: bytes, principal: Principal | None
    ) -> None:
        await serve_websocket(self._engine, upgrade, exchange, self._decoder, principal)

    async def _show_readiness(self, exchange: Exchange, *_: object) -> None:
        readiness = self._engine.readiness()
        ready = readiness.ready and not self._engine.draining and not self._is_stopping
        await exchange.respond(200 if ready else 503, readiness_page(readiness, ready=ready))

    def _missing_scopes(
        self, exchange: Exchange, scope: Scope, incoming: Incoming, principal: Principal | None
    ) -> HTTPRefusal | None:
        """Return the challenge for scopes that the request needs and the principal lacks."""
        if self._guard is None or principal is None:
            return None
        scopes = self._engine.missing_scopes(incoming, principal)
        if not scopes:
            return None
        error = self._guard.insufficient_scope(request_head(scope, exchange.headers), principal, scopes)
        return refusal_of(error, scopes=scopes)


async def _pass_on(app: ASGIApp, receive: Receive, send: Send, _exchange: Exchange, scope: Scope, *_: object) -> None:
    await app(scope, receive, send)


async def _serve_plugin(path: _Path, exchange: Exchange, scope: Scope, _place: Share) -> None:
    await path.serve(exchange, scope, b"", None)


def _give_back(places: Shares, exchange: Exchange, place: Share) -> None:
    if exchange.admitted is not None:
        exchange.admitted.forget()
    places.give_back(place)


async def _show_liveness(exchange: Exchange, *_: object) -> None:
    await exchange.respond(200, b'{"status":"ok"}')


async def _show_document(document: bytes, exchange: Exchange, *_: object) -> None:
    await exchange.respond(200, document, headers=[(b"cache-control", b"public, max-age=300")])


async def _ask_for_upgrade(exchange: Exchange, *_: object) -> None:
    await exchange.respond(426, headers=[(b"upgrade", b"websocket"), (b"connection", b"upgrade")])


async def _do_nothing(*_: object) -> None:
    """Do nothing, because the check has refused the request."""


_UNKNOWN_PATH: Final = _Path(_Kind.UNKNOWN, _do_nothing, STREAMABLE)


async def _serve_lifespan(receive: Receive, send: Send) -> None:
    # The nursery that runs HTTPApp.run() owns all tasks, so start-up and shutdown are only acknowledged.
    while True:
        event: Mapping[str, Any] = await receive()
        await send({"type": event["type"] + ".complete"})
        if event["type"] == "lifespan.shutdown":
            return
