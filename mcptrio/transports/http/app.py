"""Streamable HTTP as an ASGI application: every revision on one path, beside health and readiness.

Served by :mod:`mcptrio.transports.http.hypercorn`, or mounted in somebody else's ASGI application on Trio. It reads the
request, asks the rules what it is, and hands it to whoever answers it.
The one rule: nothing reaches the engine that was not let through by address, host, origin, limits and authentication,
in this order.

Source: MCP 2026-07-28, 2025-11-25 and 2024-11-05, basic/transports; ASGI 3.0; Fetch standard, "HTTP extensions" (CORS).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson
import trio
from attrs import frozen

from mcptrio.abc import ASGIApp, Bus, Engine, EventStore, Guard, Principal, SessionStore
from mcptrio.errors import AuthorizationError, ConnectionClosed, Overloaded, RateLimited
from mcptrio.protocol.jsonrpc import Limits, decode
from mcptrio.protocol.messages import Incoming, Request
from mcptrio.transports.http.address_rates import AddressRates
from mcptrio.transports.http.addresses import Proxies, address_of
from mcptrio.transports.http.exchange import Exchange, HTTPLimits, Receive, Scope, Send
from mcptrio.transports.http.guarding import refusal_of, request_head, serve_document
from mcptrio.transports.http.headers import Headers
from mcptrio.transports.http.legacy_sse import LegacyPaths, LegacySSE
from mcptrio.transports.http.origins import HostPolicy, OriginPolicy
from mcptrio.transports.http.rules import (
    STREAMABLE,
    Answer,
    Decision,
    Refusal,
    judge_bodiless,
    judge_head,
    judge_post,
    judge_upgrade,
)
from mcptrio.transports.http.sessions import Sessions
from mcptrio.transports.http.silence import Silence
from mcptrio.transports.http.stateful import serve_session
from mcptrio.transports.http.stateless import answer
from mcptrio.transports.http.websocket import Upgrade, serve_websocket
from mcptrio.transports.http1.exchange import EXTENSION

__all__ = ["HTTPApp"]

_NO_EXTENSIONS: Final[Mapping[str, Any]] = {}
_EXPOSED: Final = b"Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, DPoP-Nonce"
_HEADER_LIST: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{0,2000}")


@frozen
class _Place:
    """What is served on one path."""

    methods: tuple[str, ...]
    serve: Callable[[Exchange, Scope, bytes, Principal | None], Awaitable[None]]
    """Answers what was let through; raises Overloaded before it has sent anything, ConnectionClosed at any time."""


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
        self._silence = Silence(engine, {self._limits.keep_alive, self._limits.priming})
        self._sessions = Sessions(engine, sessions, events, bus, self._limits, self._silence)
        self._websocket = None if websocket is None else websocket.rstrip("/")
        self._hosts = hosts or HostPolicy()
        self._origins = origins or OriginPolicy()
        self._guard = guard
        self._documents = guard.documents if guard is not None else {}
        self._proxies = proxies or None
        self._rates = AddressRates.of(self._limits)
        self._json_limits = Limits(
            message_bytes=self._limits.body_bytes, depth=self._limits.depth, batch=self._limits.batch
        )
        self._open = 0
        places = [(path, _Place(STREAMABLE, self._answer))]
        if legacy is not None:
            sse = LegacySSE(engine, legacy, self._limits, self._json_limits)
            places += [(legacy.stream, _Place(("GET",), sse.open)), (legacy.messages, _Place(("POST",), sse.post))]
        self._places = {path.rstrip("/"): place for path, place in places}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own what outlives a request: streams of sessions, news from other replicas, expiry. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._silence.run)
            await self._sessions.run(task_status=task_status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._route(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await self._upgrade(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        connected = scope.get("extensions", _NO_EXTENSIONS).get(EXTENSION)
        exchange = Exchange(Headers(scope["headers"]), self._limits, receive, send, connected)
        if await self._is_too_often(exchange, scope):
            return
        method: str = scope["method"]
        path = _path_in(scope)
        if path in self._places:
            await self._admit(self._places[path], exchange, scope)
        elif path == self._websocket:
            await exchange.respond(426, headers=[(b"upgrade", b"websocket"), (b"connection", b"upgrade")])
        elif path in self._documents:
            if await self._is_served_here(exchange):
                await serve_document(exchange, method, self._documents[path])
        elif (routed := self._engine.route(path)) is not None:
            await self._pass_on(routed, exchange, scope, receive, send)
        elif method != "GET" or path not in {"/healthz", "/readyz"}:
            await exchange.respond(404)
        elif path == "/healthz":
            await exchange.respond(200, b'{"status":"ok"}')
        else:
            health = self._engine.health()
            ready = bool(health.get("ready")) and not self._engine.draining
            await exchange.respond(200 if ready else 503, orjson.dumps({**health, "ready": ready}, default=str))

    async def _upgrade(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket, past the same rungs as a request, and refused as one."""
        upgrade = Upgrade(scope, receive, send)
        exchange = Exchange(Headers(scope["headers"]), self._limits, receive, upgrade.respond)
        if (await receive())["type"] != "websocket.connect":
            return
        if await self._is_too_often(exchange, scope):
            return
        if _path_in(scope) == self._websocket:
            await self._admit(upgrade, exchange, scope)
        else:
            await exchange.respond(404)

    async def _is_too_often(self, exchange: Exchange, scope: Scope) -> bool:
        """Whether the address it comes from asks too often; if so, that has been said.

        From here on ``scope["client"]`` and ``scope["scheme"]`` are the client's own, also behind a trusted proxy.
        """
        if self._proxies is not None:
            self._proxies.reveal(scope)
        if self._rates is None or (address := address_of(scope)) is None:
            return False
        wait = self._rates.wait(address)
        if wait is not None:
            await exchange.overloaded("too many requests from this address", wait, status=429)
        return wait is not None

    async def _is_served_here(self, exchange: Exchange) -> bool:
        """Whether it was sent to a name of ours; if not, that has been said."""
        allowed = self._hosts.allows(exchange.headers.get("host"))
        if not allowed:
            await exchange.refuse(Refusal.because(421, "Host: not served here"))
        return allowed

    async def _pass_on(self, app: ASGIApp, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        """To the application of a plugin, which judges origins and people by itself."""
        if not await self._is_served_here(exchange):
            return
        if self._open >= self._limits.streams:
            await exchange.overloaded(f"too many exchanges: the limit is {self._limits.streams}", 1.0)
            return
        self._open += 1
        try:
            await app(scope, receive, send)
        finally:
            self._leave()

    async def _admit(self, wanted: _Place | Upgrade, exchange: Exchange, scope: Scope) -> None:
        headers = exchange.headers
        origin = headers.get("origin")
        if not await self._is_served_here(exchange):
            return
        if not self._origins.allows(origin):
            await exchange.refuse(Refusal.because(403, "Origin: not allowed"))
        else:
            if origin is not None:
                exchange.common += [
                    (b"access-control-allow-origin", origin.encode("latin-1")),
                    (b"access-control-expose-headers", _EXPOSED),
                    (b"vary", b"Origin"),
                ]
                preflight = scope.get("method") == "OPTIONS" and "access-control-request-method" in headers
                if preflight and isinstance(wanted, _Place):
                    await _preflight(exchange, wanted.methods)
                    return
            await self._limit(wanted, exchange, scope)

    async def _limit(self, wanted: _Place | Upgrade, exchange: Exchange, scope: Scope) -> None:
        limits, headers = self._limits, exchange.headers
        if isinstance(wanted, Upgrade):
            refusal = judge_upgrade(headers, wanted.subprotocols, header_bytes=limits.header_bytes)
        else:
            refusal = judge_head(
                scope["method"],
                headers,
                methods=wanted.methods,
                header_bytes=limits.header_bytes,
                body_bytes=limits.body_bytes,
            )
        if refusal is not None:
            await exchange.refuse(refusal)
        elif self._open >= limits.streams:
            await exchange.overloaded(f"too many exchanges: the limit is {limits.streams}", 1.0)
        else:
            self._open += 1
            try:
                await self._serve(wanted, exchange, scope)
            except ConnectionClosed:
                pass  # the client has left; there is nobody to tell
            finally:
                if exchange.parted:
                    exchange.on_over = self._leave
                else:
                    self._leave()

    def _leave(self) -> None:
        self._open -= 1

    async def _serve(self, wanted: _Place | Upgrade, exchange: Exchange, scope: Scope) -> None:
        principal: Principal | None = None
        if self._guard is not None:
            try:
                principal = await self._guard.admit(request_head(scope, exchange.headers))
            except AuthorizationError as error:
                await exchange.refuse(refusal_of(error))
                return
            except Overloaded as error:
                status = 429 if isinstance(error, RateLimited) else 503
                await exchange.overloaded(error.message, error.retry_after, status=status)
                return
        if isinstance(wanted, Upgrade):
            await serve_websocket(self._engine, wanted, exchange, self._json_limits, principal)
            return
        body = await exchange.body()
        if isinstance(body, Refusal):
            await exchange.refuse(body)
            return
        try:
            await wanted.serve(exchange, scope, body, principal)
        except Overloaded as error:
            await exchange.overloaded(error.message, error.retry_after)

    async def _answer(self, exchange: Exchange, scope: Scope, body: bytes, principal: Principal | None) -> None:
        method: str = scope["method"]
        decision: Decision
        if method == "POST":
            incoming = decode(body, self._json_limits)
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
        else:
            try:
                await serve_session(self._sessions, exchange, decision, principal)
            except Overloaded as error:
                id = incoming.id if isinstance(incoming, Request) else None
                await exchange.overloaded(error.message, error.retry_after, id)

    def _lacking(
        self, exchange: Exchange, scope: Scope, incoming: Incoming, principal: Principal | None
    ) -> Refusal | None:
        """The challenge for scopes that the requests need and the principal lacks: only now can it be a status."""
        if self._guard is None or principal is None:
            return None
        scopes = self._engine.lacking_scopes(incoming, principal)
        if not scopes:
            return None
        return refusal_of(self._guard.demand(request_head(scope, exchange.headers), principal, scopes))


def _path_in(scope: Scope) -> str:
    # Mounted, some servers leave the mount point in the path, as ASGI 3 has it, and some take it away.
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")).rstrip("/")


async def _preflight(exchange: Exchange, methods: tuple[str, ...]) -> None:
    """What a browser asks before it sends a request that is not simple. Which headers it may send is no secret."""
    wanted = exchange.headers.get("access-control-request-headers", "")
    allowed = wanted if _HEADER_LIST.fullmatch(wanted) else "content-type"
    await exchange.respond(
        204,
        headers=[
            (b"access-control-allow-methods", ", ".join(methods).encode("ascii")),
            (b"access-control-allow-headers", allowed.encode("ascii")),
            (b"access-control-max-age", b"600"),
        ],
    )


async def _live(receive: Receive, send: Send) -> None:
    """Nothing is owned by the lifespan: the nursery that serves the application is the owner."""
    while True:
        event: Mapping[str, Any] = await receive()
        await send({"type": event["type"] + ".complete"})
        if event["type"] == "lifespan.shutdown":
            return
