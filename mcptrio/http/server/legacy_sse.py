"""HTTP with SSE, the transport of 2024-11-05: a stream for the server's messages, and POSTs for the client's.

``HTTPApp`` calls it after the usual checks. A GET opens a session, which lasts as long as the response, and a POST
brings one message to the session. The id of a session does not authenticate: it is valid only for the principal of the
stream, with the same scopes. A session stays in the process that has its stream. If a POST reaches another replica, the
message is passed on through the stores (:mod:`mcptrio.http.server.legacy_inbox`).

Source: MCP 2024-11-05, basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

import logging
import re
import secrets
from functools import partial
from typing import Final
from urllib.parse import parse_qs, quote

import trio
from attrs import frozen

from mcptrio.abc import STORE_RETRY_SECONDS, Engine, Principal
from mcptrio.errors import ConnectionClosed, Overloaded, StoreFailed
from mcptrio.http.server.asgi import Scope
from mcptrio.http.server.decoder import MessageDecoder
from mcptrio.http.server.exchange import Exchange
from mcptrio.http.server.legacy_channel import LegacyChannel
from mcptrio.http.server.legacy_inbox import LegacyInbox, belongs_to, put_message
from mcptrio.http.server.rules import HTTPRefusal
from mcptrio.http.server.session import SharedSessionState
from mcptrio.protocol.messages import Incoming, Malformed

__all__ = ["LegacyPaths", "LegacySSE"]

_ID_PARAMETER: Final = "session_id"
# The id is not a credential, but a guess would let another client of the same principal inject messages.
_ID_BYTES: Final = 32
_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_CLOSE_TIMEOUT: Final = 1.0
"""Seconds after the client's disconnect until the session is cancelled."""
_MAX_PARAMETERS: Final = 16
"""Query parameters of a POST: ours, and those that a proxy may add."""

_log = logging.getLogger("mcptrio.http.sessions")


@frozen(kw_only=True)
class LegacyPaths:
    """The paths at which the transport is served.

    Args:
        stream: The path of the GET, which opens the stream.
        messages: The path of the POSTs, which the stream tells the client.
    """

    stream: str = "/sse"
    messages: str = "/messages"


@frozen
class _Stream:
    channel: LegacyChannel
    inbox: LegacyInbox | None
    """``None`` if there are no other replicas."""

    async def deliver(self, incoming: Incoming) -> None:
        """See :meth:`LegacyInbox.deliver`."""
        await (self.channel if self.inbox is None else self.inbox).deliver(incoming)


class LegacySSE:
    """The sessions of this process.

    Args:
        decoder: Decodes the messages of POSTs.
        shared: The stores, and the connection to the other replicas.
    """

    def __init__(self, engine: Engine, paths: LegacyPaths, decoder: MessageDecoder, shared: SharedSessionState) -> None:
        self._engine = engine
        self._paths = paths
        self._decoder = decoder
        self._shared = shared
        self._max_streams = max(1, shared.limits.streams // 2)
        """A stream takes one of the places that all exchanges share. Half of the places are left for the POSTs."""
        self._streams: dict[str, _Stream] = {}

    async def open(self, exchange: Exchange, scope: Scope, _body: bytes, principal: Principal | None) -> None:
        """Serve a GET: a session, until either side ends it.

        Raises:
            Overloaded: There are too many sessions, the server is stopping, or the store has failed. Nothing was sent,
                so a load balancer can try another server.
        """
        if self._engine.draining:
            raise Overloaded("the server is stopping")
        if len(self._streams) >= self._max_streams:
            raise Overloaded(f"too many SSE sessions: the limit is {self._max_streams}", retry_after=10.0)
        id = secrets.token_urlsafe(_ID_BYTES)
        channel = LegacyChannel(exchange, self._endpoint(scope, id), principal)
        inbox = LegacyInbox(id, channel, self._shared, self._decoder) if self._shared.replicas.is_enabled else None
        # Added before the endpoint event is sent, because the first POST may arrive as soon as the client has read it.
        self._streams[id] = _Stream(channel, inbox)
        try:
            if inbox is not None:
                try:
                    await inbox.open()
                except StoreFailed as error:
                    raise _unavailable_error(error) from error
            await self._serve(exchange, channel, inbox)
        finally:
            del self._streams[id]
            if inbox is not None:
                await inbox.close()  # noqa: ASYNC102 - shields what it does, and has its own deadline

    async def _serve(self, exchange: Exchange, channel: LegacyChannel, inbox: LegacyInbox | None) -> None:
        refused = Overloaded("the server is stopping")
        async with trio.open_nursery() as nursery:

            def on_disconnect() -> None:
                """End the session's requests. A request that does not end in time is cancelled."""
                channel.disconnected()
                nursery.cancel_scope.deadline = trio.current_time() + _CLOSE_TIMEOUT

            nursery.start_soon(channel.keep_alive)
            if inbox is not None:
                nursery.start_soon(inbox.run)
            exchange.end_if_unauthorized(nursery.cancel_scope.cancel)
            serve = partial(self._engine.serve, channel, principal=channel.principal)
            try:
                await exchange.while_connected(serve, on_disconnect)
            except Overloaded as error:
                # Raised below, because the nursery would wrap the exception in a group.
                refused = error
            # Ends the keepalive and the inbox; the session itself has ended.
            nursery.cancel_scope.cancel()
        # If no byte was sent, the engine has refused the session, and the refusal can still be sent.
        if not (exchange.is_streaming or exchange.is_gone):
            raise refused

    async def post(self, exchange: Exchange, scope: Scope, body: bytes, principal: Principal | None) -> None:
        """Serve a POST. The response is 202 when the session, or the inbox for another replica, has the message.

        Raises:
            Overloaded: The session does not receive in time, or the store has failed. The message was not delivered.
        """
        id = _id_in(scope)
        try:
            stream = self._streams.get(id)
            if not await self._is_open(id, stream, principal):
                # The response is the same in all cases, because it must not show which ids exist.
                await exchange.refuse(_UNKNOWN)
                return
            incoming = self._decoder.decode(body, exchange.owner)
            if isinstance(incoming, Malformed):
                await exchange.refuse(HTTPRefusal(400, incoming.reply))
            elif stream is None:
                await self._put(exchange, id, body)
            else:
                await self._deliver(exchange, stream, incoming)
        except StoreFailed as error:
            raise _unavailable_error(error) from error

    async def _is_open(self, id: str, stream: _Stream | None, principal: Principal | None) -> bool:
        """Return whether the session exists, here or on another replica, and belongs to the principal."""
        if stream is not None:
            return stream.channel.principal == principal
        # Only text in the form of an id is looked up in the store.
        is_elsewhere = self._shared.replicas.is_enabled and _ID_PATTERN.fullmatch(id) is not None
        return is_elsewhere and await belongs_to(self._shared, id, principal)

    async def _deliver(self, exchange: Exchange, stream: _Stream, incoming: Incoming) -> None:
        try:
            with trio.move_on_after(exchange.limits.body_timeout) as deadline:
                await stream.deliver(incoming)
        except ConnectionClosed:
            await exchange.refuse(_UNKNOWN)
            return
        if deadline.cancelled_caught:
            raise Overloaded("the session is behind: the client does not read its messages")
        await exchange.respond(202)

    async def _put(self, exchange: Exchange, id: str, message: bytes) -> None:
        """Store the message for the replica with the stream."""
        try:
            await put_message(self._shared, id, message)
        except StoreFailed as error:
            _log.error("%s", error)
            # A 503 would say that the message was not delivered, and the client would send it again.
            await exchange.refuse(_UNCERTAIN)
        except ConnectionClosed:
            await exchange.refuse(_UNKNOWN)
        else:
            await exchange.respond(202)

    def _endpoint(self, scope: Scope, id: str) -> str:
        """Return the URL for POSTs, without a host, because only a proxy may know the public host name."""
        # The path begins with exactly one slash, because two would name a host (RFC 3986 section 4.2).
        path = f"{scope.get('root_path', '')}{self._paths.messages}"
        return f"/{quote(path.lstrip('/'))}?{_ID_PARAMETER}={id}"


_UNKNOWN: Final = HTTPRefusal.because(404, "no such session; start again with a GET of the stream")
_UNCERTAIN: Final = HTTPRefusal.because(504, "the store has failed; whether the session gets the message is not known")


def _unavailable_error(error: StoreFailed) -> Overloaded:
    _log.error("%s", error)
    return Overloaded("the session store is unavailable", retry_after=STORE_RETRY_SECONDS)


def _id_in(scope: Scope) -> str:
    """Return the session id in a query; empty if there is no id or more than one."""
    try:
        query = parse_qs(scope.get("query_string", b"").decode("ascii"), max_num_fields=_MAX_PARAMETERS)
        ids = query.get(_ID_PARAMETER, [])
    except ValueError:
        return ""
    # With two ids, a proxy may check one of them, and this server would use the other one.
    return ids[0] if len(ids) == 1 else ""
