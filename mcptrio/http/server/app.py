"""Streamable HTTP as an ASGI application: every revision on one path, beside health and readiness.

Served by :mod:`mcptrio.http.engine.server`, or mounted in somebody else's ASGI application on Trio. It reads the
request, asks the rules what it is, and hands it to whoever answers it.
The one rule: nothing reaches the engine that was not let through by address, host, origin, limits and authentication,
in this order.

Source: MCP 2026-07-28, 2025-11-25 and 2024-11-05, basic/transports; ASGI 3.0; Fetch standard, "HTTP extensions" (CORS).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import orjson
import trio
from attrs import frozen

from mcptrio.abc import ASGIApp, Bus, Engine, EventStore, Guard, Principal, SessionStore
from mcptrio.errors import AuthorizationError, ConnectionClosed, Overloaded, RateLimited
from mcptrio.ground.shares import Place, Places
from mcptrio.http.client_address import Proxies
from mcptrio.http.headers import Headers
from mcptrio.http.server.asgi import ASGIExchange, Receive, Scope, Send, exchange_of
from mcptrio.http.server.cors import answer_preflight, every_origin, is_preflight, one_origin
from mcptrio.http.server.decoder import Decoder
from mcptrio.http.server.exchange import Exchange
from mcptrio.http.server.front_page import show_front_page, wants_front_page
from mcptrio.http.server.keepalives import Silence
from mcptrio.http.server.legacy_sse import LegacyPaths, LegacySSE
from mcptrio.http.server.limits import HTTPLimits
from mcptrio.http.server.origins import HostPolicy, OriginPolicy
from mcptrio.http.server.owner_rates import OwnerRates
from mcptrio.http.server.owners import address_owner, principal_owner
from mcptrio.http.server.reauthorization import Stays
from mcptrio.http.server.request_auth import refusal_of, request_head
from mcptrio.http.server.rules import (
    STREAMABLE,
    Answer,
    Decision,
    Initialize,
    Refusal,
    judge_bodiless,
    judge_head,
    judge_post,
    judge_upgrade,
)
from mcptrio.http.server.sessions import Sessions
from mcptrio.http.server.stateful import serve_session
from mcptrio.http.server.stateless import answer
from mcptrio.http.server.websocket import Upgrade, serve_websocket
from mcptrio.protocol.messages import Incoming, Request

__all__ = ["HTTPApp"]


@frozen
class _Place:
    """A path that reaches the engine: its exchanges are counted, authenticated, and have a body."""

    methods: tuple[str, ...]
    serve: Callable[[Exchange, Scope, bytes, Principal | None], Awaitable[None]]
    """Answers an exchange; raises Overloaded before it has sent anything, ConnectionClosed at any time."""


@frozen
class _Page:
    """A path that every client may read: health, public documents."""

    show: Callable[[Exchange], Awaitable[None]]
    is_public: bool = False
    """Whether web pages of every origin may read it."""
    any_host: bool = False
    """Whether it is served whatever ``Host`` says: probes call by address."""
    methods: tuple[str, ...] = ("GET", "HEAD")


class HTTPApp:
    """The ASGI application. :meth:`run` has to be running for handshake sessions.

    Args:
        path: of the endpoint.
        legacy: where HTTP with SSE is served, the transport of 2024-11-05; ``None`` for nowhere.
        websocket: where WebSockets are opened; ``None`` for nowhere.
        hosts: whom ``Host`` may name; without, loopback only.
        origins: which web pages may call; without, those of this machine only.
        bus: reaches the other replicas; ``None`` where this process is the only one.
        guard: says who asks and who may; without, everybody is nobody: principal ``None``.
        proxies: whose word on the client's address is believed; without, nobody's.
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
        self._silence = Silence(engine, {self._limits.keepalive_interval, self._limits.stream_delay})
        self._sessions = Sessions(engine, sessions, events, bus, self._limits, self._silence)
        self._websocket = None if websocket is None else websocket.rstrip("/")
        self._hosts = hosts or HostPolicy()
        self._origins = origins or OriginPolicy()
        self._guard = guard
        self._stays = Stays(engine, guard) if guard is not None else None
        self._documents = guard.documents if guard is not None else {}
        self._proxies = proxies or None
        bounds = self._limits
        self._rates = OwnerRates(bounds.address_rate, bounds.address_burst, bounds.addresses)
        self._session_rates = OwnerRates(bounds.session_rate, bounds.session_burst, bounds.addresses)
        self._decoder = Decoder(bounds.message, bounds.parse_share, bounds.addresses)
        self._front = _Page(partial(show_front_page, path))
        self._open = Places(self._limits.streams)
        self._routed = Places(self._limits.streams)
        """Exchanges of plugins' own routes, apart, so that they cannot take those of the endpoint."""
        self._leaving = False
        self._endpoint = _Place(STREAMABLE, self._answer)
        places = {path: self._endpoint}
        if legacy is not None:
            sse = LegacySSE(engine, legacy, self._limits, self._decoder)
            places |= {legacy.stream: _Place(("GET",), sse.open), legacy.messages: _Place(("POST",), sse.post)}
        self._places: dict[str, _Place | _Page] = {path.rstrip("/"): place for path, place in places.items()}
        if self._websocket is not None:
            self._places.setdefault(self._websocket, _Page(_ask_for_upgrade))
        for path, document in (guard.documents if guard is not None else {}).items():
            self._places.setdefault(path, _Page(partial(_show_document, document), is_public=True))
        self._places.setdefault("/healthz", _Page(_say_alive, any_host=True))
        self._places.setdefault("/readyz", _Page(self._say_ready, any_host=True))

    @property
    def exchanges(self) -> int:
        """Exchanges that are open now."""
        return self._open.taken

    def leave(self) -> None:
        """Say on ``/readyz`` that the server is about to stop, and go on serving."""
        self._leaving = True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own what outlives a request: streams of sessions, news from other replicas, expiry. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._silence.run)
            if self._stays is not None:
                nursery.start_soon(self._stays.run)
            await self._sessions.run(task_status=task_status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._route(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await self._upgrade(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = exchange_of(scope, receive, send, write_timeout=self._limits.write_timeout)
        exchange = Exchange(Headers(scope["headers"]), self._limits, http)
        self._reveal(scope)
        path = self._path_in(scope)
        place = self._places.get(path)
        routed = self._engine.route(path) if place is None else None
        if routed is None:
            is_allowed = self._share_with_origin(exchange, place)
            if is_allowed and is_preflight(scope["method"], exchange.headers):
                await answer_preflight(exchange, STREAMABLE if place is None else place.methods)
                return
        if await self._is_too_often(exchange, scope):
            return
        if routed is not None:
            await self._pass_on(routed, exchange, scope, receive, send)
            return
        if place is None and path == "" and wants_front_page(scope["method"], exchange.headers):
            place = self._front
        if place is None:
            await exchange.respond(404)
        elif isinstance(place, _Place):
            await self._admit(place, exchange, scope)
        elif place.any_host or await self._is_served_here(exchange):
            await _show(place, exchange, scope["method"])
        if not (exchange.is_answered or exchange.is_kept_open):
            # The client left before the first byte. An ASGI application completes its response all the same: frameworks
            # around it take none for an error, and the access log has the status that nginx made known for this.
            with suppress(OSError):
                await exchange.respond(499)

    async def _upgrade(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a WebSocket, by the same rules as a request."""
        upgrade = Upgrade(scope, receive, send)
        http = ASGIExchange(receive, upgrade.respond, self._limits.write_timeout)
        exchange = Exchange(Headers(scope["headers"]), self._limits, http)
        if (await receive())["type"] != "websocket.connect":
            return
        self._reveal(scope)
        if await self._is_too_often(exchange, scope):
            return
        if self._path_in(scope) == self._websocket:
            await self._admit(upgrade, exchange, scope)
        else:
            await exchange.respond(404)

    def _reveal(self, scope: Scope) -> None:
        """Put the client's own address and scheme into the scope, also behind a trusted proxy."""
        if self._proxies is not None:
            self._proxies.reveal(scope)

    def _path_in(self, scope: Scope) -> str:
        """The path below the mount point, without a slash at its end.

        Mounted, some servers leave the mount point in the path, as ASGI 3 says, and some proxies take it away.
        """
        path: str = scope["path"].rstrip("/")
        root: str = scope.get("root_path", "").rstrip("/")
        if not root or not (path == root or path.startswith(root + "/")):
            return path
        below = path[len(root) :]
        # A proxy has taken the mount point away, and the path begins with the same segment by itself.
        if not self._is_known(below) and self._is_known(path):
            return path
        return below

    def _is_known(self, path: str) -> bool:
        return path in self._places or self._engine.route(path) is not None

    def _share_with_origin(self, exchange: Exchange, place: _Place | _Page | None) -> bool:
        """Let the web page that asks read the response, whatever its status, if its origin is allowed.

        Source: Fetch standard, "CORS protocol and HTTP responses".
        """
        origin = exchange.headers.get("origin")
        if origin is None:
            return False
        is_public = isinstance(place, _Page) and place.is_public
        if not (is_public or self._origins.allows(origin)):
            return False
        exchange.common += every_origin() if is_public else one_origin(origin)
        return True

    async def _is_too_often(self, exchange: Exchange, scope: Scope) -> bool:
        """Whether the address sends requests too often; if so, 429 has been answered."""
        wait = self._rates.wait(address_owner(scope))
        if wait is not None:
            await exchange.overloaded(RateLimited("too many requests from this address", retry_after=wait))
        return wait is not None

    async def _is_served_here(self, exchange: Exchange) -> bool:
        """Whether ``Host`` names this server; if not, 421 has been answered."""
        allowed = self._hosts.allows(exchange.headers.get("host"))
        if not allowed:
            await exchange.refuse(Refusal.because(421, "Host: not served here"))
        return allowed

    async def _pass_on(self, app: ASGIApp, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        """To the application of a plugin, which judges origins and principals by itself."""
        if not await self._is_served_here(exchange):
            return
        place = self._routed.take(address_owner(scope))
        if place is None:
            await self._refuse_one_more(exchange)
            return
        try:
            await app(scope, receive, send)
        finally:
            self._routed.give_back(place)

    async def _admit(self, wanted: _Place | Upgrade, exchange: Exchange, scope: Scope) -> None:
        if not await self._is_served_here(exchange):
            return
        if not self._origins.allows(exchange.headers.get("origin")):
            await exchange.refuse(Refusal.because(403, "Origin: not allowed"))
            return
        limits, headers = self._limits, exchange.headers
        if isinstance(wanted, Upgrade):
            refusal = judge_upgrade(headers, wanted.subprotocols, header_bytes=limits.header_bytes)
        else:
            refusal = judge_head(
                scope["method"],
                headers,
                methods=wanted.methods,
                header_bytes=limits.header_bytes,
                body_bytes=limits.message.bytes,
            )
        if refusal is not None:
            await exchange.refuse(refusal)
            return
        held = self._open.take(address_owner(scope))
        if held is None:
            await self._refuse_one_more(exchange)
            return
        try:
            await self._serve(wanted, exchange, scope, held)
        except ConnectionClosed:
            pass  # the client has left
        finally:
            if exchange.is_kept_open:
                exchange.on_close = partial(self._leave, exchange, held)
            else:
                self._leave(exchange, held)

    def _leave(self, exchange: Exchange, held: Place) -> None:
        if exchange.stay is not None:
            exchange.stay.over()
        self._open.give_back(held)

    async def _refuse_one_more(self, exchange: Exchange) -> None:
        limit = self._limits.streams
        await exchange.overloaded(
            Overloaded(f"too many exchanges: the limit is {limit}, and half of it for one client")
        )

    async def _serve(self, wanted: _Place | Upgrade, exchange: Exchange, scope: Scope, held: Place) -> None:
        principal: Principal | None = None
        if self._guard is not None:
            try:
                head = request_head(scope, exchange.headers, is_beside=wanted is not self._endpoint)
                principal = await self._guard.admit(head)
            except AuthorizationError as error:
                await exchange.refuse(refusal_of(error))
                return
            except Overloaded as error:
                await exchange.overloaded(error)
                return
            if self._stays is not None and principal is not None:
                exchange.stay = self._stays.of(head, principal)
            # Users behind one proxy have one address; from here on each counts for itself.
            if principal is not None and not self._open.hand_over(held, principal_owner(principal)):
                await self._refuse_one_more(exchange)
                return
        exchange.owner = held.owner
        if isinstance(wanted, Upgrade):
            await serve_websocket(self._engine, wanted, exchange, self._decoder, principal)
            return
        body = await exchange.body()
        if isinstance(body, Refusal):
            await exchange.refuse(body)
            return
        try:
            await wanted.serve(exchange, scope, body, principal)
        except Overloaded as error:
            await exchange.overloaded(error)

    async def _answer(self, exchange: Exchange, scope: Scope, body: bytes, principal: Principal | None) -> None:
        method: str = scope["method"]
        decision: Decision
        if method == "POST":
            incoming = self._decoder.decode(body, exchange.owner)
            exchange.describe(incoming)
            decision = judge_post(exchange.headers, incoming, self._engine.mirrored_parameters)
        else:
            incoming = None
            decision = judge_bodiless(method, exchange.headers)
        if isinstance(decision, Refusal):
            await exchange.refuse(decision)
        elif incoming is not None and (lacking := self._lacking(exchange, scope, incoming, principal)) is not None:
            await exchange.refuse(lacking)
        elif isinstance(decision, Answer):
            await answer(self._engine, exchange, decision.message, principal, self._silence)
        elif isinstance(decision, Initialize) and (wait := self._wait_to_open(scope, principal)) is not None:
            refused = RateLimited("too many new sessions from this client", retry_after=wait)
            await exchange.overloaded(refused, decision.request.id)
        else:
            try:
                await serve_session(self._sessions, exchange, decision, principal)
            except Overloaded as error:
                id = incoming.id if isinstance(incoming, Request) else None
                await exchange.overloaded(error, id)

    def _wait_to_open(self, scope: Scope, principal: Principal | None) -> float | None:
        """Seconds until the client may open one more session; ``None`` if it may now."""
        owner = address_owner(scope) if principal is None else principal_owner(principal)
        return self._session_rates.wait(owner)

    async def _say_ready(self, exchange: Exchange) -> None:
        found = self._engine.readiness()
        ready = found.ready and not self._engine.draining and not self._leaving
        await exchange.respond(200 if ready else 503, orjson.dumps({"ready": ready, "plugins": dict(found.plugins)}))

    def _lacking(
        self, exchange: Exchange, scope: Scope, incoming: Incoming, principal: Principal | None
    ) -> Refusal | None:
        """The challenge for scopes that the requests need and the principal lacks: only now can it be a status."""
        if self._guard is None or principal is None:
            return None
        scopes = self._engine.lacking_scopes(incoming, principal)
        if not scopes:
            return None
        demand = self._guard.demand(request_head(scope, exchange.headers), principal, scopes)
        return refusal_of(demand, scopes=scopes)


async def _show(page: _Page, exchange: Exchange, method: str) -> None:
    if method in page.methods:
        await page.show(exchange)
    elif method == "OPTIONS":
        await exchange.respond(204, headers=[(b"allow", _allowed(page.methods))])
    else:
        await exchange.respond(405, headers=[(b"allow", _allowed(page.methods))])


async def _say_alive(exchange: Exchange) -> None:
    await exchange.respond(200, b'{"status":"ok"}')


async def _show_document(document: bytes, exchange: Exchange) -> None:
    await exchange.respond(200, document, headers=[(b"cache-control", b"public, max-age=300")])


async def _ask_for_upgrade(exchange: Exchange) -> None:
    await exchange.respond(426, headers=[(b"upgrade", b"websocket"), (b"connection", b"upgrade")])


def _allowed(methods: tuple[str, ...]) -> bytes:
    return ", ".join((*methods, "OPTIONS")).encode("ascii")


async def _live(receive: Receive, send: Send) -> None:
    """Nothing is owned by the lifespan: the nursery that serves the application is the owner."""
    while True:
        event: Mapping[str, Any] = await receive()
        await send({"type": event["type"] + ".complete"})
        if event["type"] == "lifespan.shutdown":
            return
