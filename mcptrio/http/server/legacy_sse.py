"""HTTP with SSE, the transport of 2024-11-05: a stream of the server's messages, and POSTs of the client's.

The ASGI entry calls it after the usual checks. A GET is a session for as long as it lasts, in the revision that it
negotiates, and a POST brings one message to it. The id of a session does not authenticate: it is valid only for the
principal of the stream, with the same scopes. Sessions are not stored and stay in this process.

Source: MCP 2024-11-05, basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Final
from urllib.parse import parse_qs, quote

import trio
from attrs import frozen

from mcptrio.abc import Engine, Principal
from mcptrio.errors import ConnectionClosed, Overloaded
from mcptrio.http.server.asgi import Scope
from mcptrio.http.server.decoder import MessageDecoder
from mcptrio.http.server.exchange import Exchange
from mcptrio.http.server.legacy_channel import LegacyChannel
from mcptrio.http.server.limits import HTTPLimits
from mcptrio.http.server.rules import HTTPRefusal
from mcptrio.protocol.messages import Malformed

__all__ = ["LegacyPaths", "LegacySSE"]

_ID: Final = "session_id"
# The id is no credential, but a guess would let another client of the same principal inject messages.
_ID_BYTES: Final = 32
_CLOSE_TIMEOUT: Final = 1.0
"""Seconds from the client's leaving to the end of the session, whatever it is doing."""
_MAX_PARAMETERS: Final = 16
"""Query parameters of a POST: ours, and additions of a proxy."""


@frozen(kw_only=True)
class LegacyPaths:
    """Where the transport is served.

    Args:
        stream: of the GET.
        messages: of the POSTs; clients learn it from the stream.
    """

    stream: str = "/sse"
    messages: str = "/messages"


class LegacySSE:
    """The sessions of this process.

    Args:
        decoder: decodes the messages of POSTs.
    """

    def __init__(self, engine: Engine, paths: LegacyPaths, limits: HTTPLimits, decoder: MessageDecoder) -> None:
        self._engine = engine
        self._paths = paths
        self._decoder = decoder
        self._most = max(1, limits.streams // 2)
        """A stream takes one of the places that all exchanges share; the rest is left for the POSTs."""
        self._channels: dict[str, LegacyChannel] = {}

    async def open(self, exchange: Exchange, scope: Scope, _body: bytes, principal: Principal | None) -> None:
        """Serve a GET: a session, until either side ends it.

        Raises:
            Overloaded: there are too many, or the server is stopping. Nothing has been sent.
        """
        # Nothing was sent, so a load balancer can try another server.
        if self._engine.draining:
            raise Overloaded("the server is stopping")
        if len(self._channels) >= self._most:
            raise Overloaded(f"too many SSE sessions: the limit is {self._most}", retry_after=10.0)
        id = secrets.token_urlsafe(_ID_BYTES)
        channel = LegacyChannel(exchange, self._endpoint(scope, id), principal)
        refused = Overloaded("the server is stopping")
        # Before the endpoint event: the first POST may arrive as soon as the client has read it.
        self._channels[id] = channel
        try:
            async with trio.open_nursery() as nursery:

                def leave() -> None:
                    """End the session's requests. A request that does not end in time is cancelled."""
                    channel.leave()
                    nursery.cancel_scope.deadline = trio.current_time() + _CLOSE_TIMEOUT

                nursery.start_soon(channel.keep_alive)
                exchange.stays(nursery.cancel_scope.cancel)
                try:
                    await exchange.while_connected(partial(self._engine.serve, channel, principal=principal), leave)
                except Overloaded as error:
                    # Out of the nursery, which would wrap it into a group.
                    refused = error
                # Ends the keepalive task; the session itself is over.
                nursery.cancel_scope.cancel()
        finally:
            del self._channels[id]
        # Without a first byte, the engine has refused the session, and a refusal can still be sent.
        if not (exchange.is_streaming or exchange.is_gone):
            raise refused

    async def post(self, exchange: Exchange, scope: Scope, body: bytes, principal: Principal | None) -> None:
        """Serve a POST: 202 when the session has taken the message.

        Raises:
            Overloaded: the session takes nothing at the moment.
        """
        channel = self._channels.get(_id_in(scope))
        # The same answer in both cases: it must not show which ids exist.
        if channel is None or channel.principal != principal:
            await exchange.refuse(_UNKNOWN)
            return
        incoming = self._decoder.decode(body, exchange.owner)
        if isinstance(incoming, Malformed):
            await exchange.refuse(HTTPRefusal(400, incoming.reply))
            return
        try:
            await channel.deliver(incoming)
        except ConnectionClosed:
            await exchange.refuse(_UNKNOWN)
        else:
            await exchange.respond(202)

    def _endpoint(self, scope: Scope, id: str) -> str:
        """Return the URL for POSTs, as a path: only a proxy may know the public host name."""
        # Exactly one slash at the beginning, because two would name a host (RFC 3986 section 4.2).
        path = f"{scope.get('root_path', '')}{self._paths.messages}"
        return f"/{quote(path.lstrip('/'))}?{_ID}={id}"


_UNKNOWN: Final = HTTPRefusal.because(404, "no such session; start again with a GET of the stream")


def _id_in(scope: Scope) -> str:
    """Return the session id in a query; empty if there is none, or several."""
    try:
        ids = parse_qs(scope.get("query_string", b"").decode("ascii"), max_num_fields=_MAX_PARAMETERS).get(_ID, [])
    except ValueError:
        return ""
    # Two ids may be read differently by a proxy that checks one of them.
    return ids[0] if len(ids) == 1 else ""
