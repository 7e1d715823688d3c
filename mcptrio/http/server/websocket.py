"""MCP over WebSocket: a connection is a session, and a text message is one JSON-RPC message or batch.

This is a custom transport, which the specification allows. ``HTTPApp`` calls it for a scope of type ``websocket``.
Refusals before the upgrade are HTTP responses (:class:`Upgrade`). After the upgrade, the engine gets a channel.

A WebSocket cannot be half closed, so when the client closes it, its requests are cancelled. Invalid JSON gets an error.
A binary message or one that is too large closes the connection, because the client would send more of them. While a
session cannot receive more messages, the connection is not read.

Source: RFC 6455 sections 4.2.2, 5.5.1 and 7.4.1; ASGI 3.0, "WebSocket" and "WebSocket Denial Response"; MCP 2026-07-28
and 2025-11-25, basic/transports, "Custom Transports".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, MutableMapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final

import trio

from mcptrio.abc import Engine, Principal
from mcptrio.errors import ConnectionClosed, Overloaded
from mcptrio.http.server.asgi import Receive, Scope, Send
from mcptrio.http.server.decoder import MessageDecoder
from mcptrio.http.server.exchange import Exchange
from mcptrio.http.subprotocol import SUBPROTOCOL, CloseCode, describe
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import Incoming, Message

__all__ = ["Upgrade", "WebSocketServerChannel", "serve_websocket"]

CLOSE_TIMEOUT: Final = 0.5
"""Seconds for sending the close frame, and again for receiving that of the client."""
_MAX_REASON_BYTES: Final = 123
"""Bytes of the reason in a close frame."""
_STOPPING: Final = "the server is stopping"


class Upgrade:
    """A requested WebSocket that is not open yet.

    Args:
        scope: An ASGI scope of type ``websocket``.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.receive = receive
        self.send = send
        self.subprotocols: Sequence[str] = scope.get("subprotocols") or ()
        self._answerable = "websocket.http.response" in (scope.get("extensions") or {})

    async def respond(self, event: MutableMapping[str, Any]) -> None:
        """Send a refusal as an HTTP response; an ASGI server without that extension sends 403 without a body."""
        if self._answerable:
            await self.send({**event, "type": f"websocket.{event['type']}"})
        elif event["type"] == "http.response.start":
            await self.send({"type": "websocket.close", "code": int(CloseCode.POLICY)})


class WebSocketServerChannel:
    """See :class:`mcptrio.abc.MessageChannel`. The upgrade is accepted when the engine first receives.

    Args:
        first_message_timeout: Seconds for the first message. A connection without a message is then closed.
        write_timeout: Seconds for sending one message. A client that reads nothing for so long is regarded as
            disconnected.
        owner: The client for which the requests are counted.
    """

    name = "websocket"

    def __init__(
        self,
        upgrade: Upgrade,
        decoder: MessageDecoder,
        *,
        first_message_timeout: float,
        write_timeout: float,
        owner: Hashable = None,
    ) -> None:
        self._receive = upgrade.receive
        self._send = upgrade.send
        self._decoder = decoder
        self._owner = owner
        self._first_message_timeout = first_message_timeout
        self._write_timeout = write_timeout
        self._is_begun = False
        self._next_read = -inf
        """Trio clock time at which the next message may be read, because of the client's share of decoding time."""
        self._broken: str | None = None
        """Why nothing more can be sent; ``None`` while the connection is open."""
        self.accepted = False
        self.refusal: tuple[CloseCode, str] | None = None
        """Code and reason if an invalid message of the client has ended the connection."""

    async def receive(self) -> list[Incoming]:
        """Return the next message.

        Raises:
            ConnectionClosed: The client has disconnected, or an invalid message ends the connection.
        """
        if not self.accepted:
            self.accepted = True
            # The engine receives only once it has a place for the session. Until then, a refusal is an HTTP response.
            await self._write([{"type": "websocket.accept", "subprotocol": SUBPROTOCOL}])
        if self._next_read > trio.current_time():
            await trio.sleep_until(self._next_read)
        event = await (self._receive() if self._is_begun else self._receive_first())
        if event["type"] != "websocket.receive":
            self._broken = f"the client has closed the connection: {describe(event.get('code') or CloseCode.NO_CODE)}"
            raise ConnectionClosed(self._broken)
        text: str | None = event.get("text")
        if text is None:
            # RFC 6455 section 7.4.1: 1003 for a data type that the endpoint cannot accept.
            raise self._refuse(CloseCode.UNSUPPORTED_DATA, "expected a text message, got a binary one")
        try:
            data = text.encode()
        except UnicodeEncodeError:
            # Some ASGI servers do not check the encoding, so that a text may have a lone surrogate.
            raise self._refuse(CloseCode.INVALID_DATA, "expected UTF-8") from None
        limit = self._decoder.limits.bytes
        if len(data) > limit:
            raise self._refuse(CloseCode.TOO_BIG, f"message of {len(data)} bytes: the limit is {limit} bytes")
        incoming = self._decoder.decode_now(data, self._owner)
        # Further messages of the client wait in the connection.
        self._next_read = trio.current_time() + self._decoder.wait(self._owner)
        return [incoming]

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all messages, one message or batch in each WebSocket message.

        Raises:
            ConnectionClosed: The client has disconnected, or does not read.
        """
        # Encode one message at a time, so that only one encoded form is in memory.
        await self._write({"type": "websocket.send", "text": encode(each).decode()} for each in messages)

    async def aclose(self) -> None:
        """Do nothing. :meth:`close_with` closes the connection, with a code that only its caller knows."""
        await trio.lowlevel.checkpoint()

    async def close_with(self, code: CloseCode, reason: str) -> None:
        """Send a close frame if the connection is open, and wait a moment for the client's.

        Takes at most twice :data:`CLOSE_TIMEOUT`. If the call is cancelled, it only sends.
        """
        if not self.accepted or self._broken is not None:
            return
        self._broken = reason
        short_reason = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        with suppress(OSError):
            with trio.move_on_after(CLOSE_TIMEOUT, shield=True) as scope:
                await self._send({"type": "websocket.close", "code": int(code), "reason": short_reason})
            with trio.move_on_after(0.0 if scope.cancelled_caught else CLOSE_TIMEOUT):
                while (await self._receive())["type"] != "websocket.disconnect":
                    pass  # messages that the client has sent before it received the close frame

    async def _write(self, events: Iterable[MutableMapping[str, Any]]) -> None:
        if self._broken is not None:
            raise ConnectionClosed(self._broken)
        with trio.move_on_after(self._write_timeout) as scope:
            for event in events:
                # Reset after the write. If the write is cancelled within a frame, nothing may follow the half frame.
                self._broken = "the connection ends in the middle of a message"
                try:
                    await self._send(event)
                except OSError as error:  # ASGI: the client has disconnected
                    self._broken = f"the client has disconnected: {error}"
                    raise ConnectionClosed(self._broken) from error
                self._broken = None
                scope.deadline = trio.current_time() + self._write_timeout
        if scope.cancelled_caught:
            self._broken = f"the client has read nothing for {self._write_timeout:g} s"
            raise ConnectionClosed(self._broken)

    async def _receive_first(self) -> MutableMapping[str, Any]:
        with trio.move_on_after(self._first_message_timeout):
            event = await self._receive()
            self._is_begun = True
            return event
        raise self._refuse(CloseCode.POLICY, f"expected a message within {self._first_message_timeout:g} s, got none")

    def _refuse(self, code: CloseCode, reason: str) -> ConnectionClosed:
        self.refusal = code, reason
        return ConnectionClosed(f"the connection is closed: {reason}")


async def serve_websocket(
    engine: Engine, upgrade: Upgrade, exchange: Exchange, decoder: MessageDecoder, principal: Principal | None
) -> None:
    """Serve one session on one WebSocket until either side ends it.

    Args:
        upgrade: A requested WebSocket, whose Host, Origin, limits and credentials have been checked.
        exchange: Sends the refusal if the engine accepts no more sessions.
    """
    if engine.draining:
        await exchange.overloaded(Overloaded(_STOPPING))
        return
    limits = exchange.limits
    channel = WebSocketServerChannel(
        upgrade,
        decoder,
        first_message_timeout=limits.body_timeout,
        write_timeout=limits.write_timeout,
        owner=exchange.owner,
    )
    # The code if the engine raises another exception.
    code, reason = CloseCode.FAILED, "internal error"
    try:
        with trio.CancelScope() as scope:
            exchange.end_if_unauthorized(scope.cancel)
            await engine.serve(channel, principal=principal)
        if scope.cancel_called:
            code, reason = CloseCode.POLICY, "the access token is no longer valid; connect again with another"
        elif channel.refusal is not None:
            code, reason = channel.refusal
        elif engine.draining:
            code, reason = CloseCode.GOING_AWAY, _STOPPING
        else:
            # The engine ends a session itself only if the client answers no pings.
            code, reason = CloseCode.POLICY, "expected answers to pings, got none"
    except Overloaded as error:
        if not channel.accepted:
            await exchange.overloaded(error)
        code, reason = CloseCode.TRY_LATER, error.message
    finally:
        if trio.current_effective_deadline() == -inf:
            code, reason = CloseCode.GOING_AWAY, _STOPPING
        await channel.close_with(code, reason)  # noqa: ASYNC102 - shields what it sends, and has its own deadlines
