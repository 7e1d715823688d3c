"""A self-contained message of a per-request revision, from the engine to the response.

Called by the ASGI entry. The first message decides the form of the response: the final answer alone is plain JSON and
an error keeps its own status; anything before it, or silence for too long, makes it a stream of events.
The one rule: the client closing the response is the cancellation of the request, whatever form the response has.

Source: MCP 2026-07-28, basic/transports/streamable-http, "Sending Messages"; basic/patterns/cancellation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from mcptrio.abc import Engine, Principal
from mcptrio.errors import ConnectionClosed, Overloaded
from mcptrio.outbox import Item, Outbox
from mcptrio.protocol import sse
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, Response
from mcptrio.transports.http.exchange import Exchange
from mcptrio.transports.http.rules import status_of
from mcptrio.transports.http.silence import Silence

__all__ = ["answer"]

_OUTBOX: Final = 256
"""Messages that may wait for a slow reader; then the handler waits."""


async def answer(
    engine: Engine,
    exchange: Exchange,
    message: Request | Notification,
    principal: Principal | None,
    silence: Silence,
) -> None:
    """Have the engine answer one message, and write what it says."""
    reply = _Reply(exchange, silence)
    overloaded: Overloaded | None = None

    async def work() -> None:
        nonlocal overloaded
        silence.begin(reply, exchange.limits.keep_alive)
        try:
            await engine.answer(message, reply, principal=principal, opened=reply.opened)
        except Overloaded as error:
            overloaded = error
        finally:
            silence.end(reply, exchange.limits.keep_alive)
            reply.close()
        if reply.written is not None:
            await reply.written.wait()

    await exchange.while_connected(work, reply.leave)
    if exchange.gone or reply.written is not None:
        return
    id = message.id if isinstance(message, Request) else None
    if overloaded is not None:
        await exchange.overloaded(overloaded.message, overloaded.retry_after, id)
    elif reply.final is not None:
        await exchange.reply(status_of(reply.final) if isinstance(reply.final, ErrorResponse) else 200, reply.final)
    elif isinstance(message, Notification):
        await exchange.respond(202)
    else:
        # Cancelled on this side, by a shutdown or a deadline that says nothing; a status is owed all the same.
        await exchange.overloaded("the request was cancelled by the server", 1.0, id)


class _Reply:
    """The outlet of one request: holds the answer back until the form of the response is known."""

    def __init__(self, exchange: Exchange, silence: Silence) -> None:
        self._exchange = exchange
        self._silence = silence
        self._outbox: Outbox | None = None
        self._closed = False
        self._cancel: Callable[[str], None] | None = None
        self.final: Response | ErrorResponse | None = None
        self.written: trio.Event | None = None
        """Set when the stream has been written; ``None`` while there is none."""

    def opened(self, cancel: Callable[[str], None]) -> None:
        """See :meth:`mcptrio.abc.Engine.answer`."""
        self._cancel = cancel
        if self._exchange.gone:
            self.leave()

    def leave(self) -> None:
        """The client has left."""
        if self._cancel is not None:
            self._cancel("the client closed the response")

    async def send(self, message: Message | Sequence[Message]) -> None:
        if self._closed or self.final is not None:
            raise ConnectionClosed("the message cannot be sent: the response is complete")
        if self._outbox is None:
            if isinstance(message, (Response, ErrorResponse)):
                self.final = message
                return
            if not self._exchange.takes_events:
                return
            self._begin()
        assert self._outbox is not None
        await self._outbox.send(message)

    def offer(self, message: Notification, key: object) -> None:
        if self._closed or self.final is not None or not self._exchange.takes_events:
            return
        if self._outbox is None:
            self._begin()
        assert self._outbox is not None
        self._outbox.offer(message, key)

    def close(self) -> None:
        self._closed = True
        if self._outbox is not None:
            self._outbox.close()

    def release(self, retry_ms: int) -> bool:
        """Never: a stream of a per-request revision cannot be resumed."""
        return False

    def break_silence(self) -> None:
        """Nothing has been said for a while: become a stream, which shows that somebody is working."""
        if self._outbox is None and self._exchange.takes_events and not self._closed and self.final is None:
            self._begin()

    def _begin(self) -> None:
        self._silence.end(self, self._exchange.limits.keep_alive)
        self._outbox = Outbox(_OUTBOX)
        self.written = trio.Event()
        self._silence.start_soon(self._write)

    async def _write(self) -> None:
        assert self._outbox is not None
        assert self.written is not None
        outbox = self._outbox
        try:
            await self._exchange.stream()
            if not len(outbox):
                await self._exchange.write()
            while True:
                items: list[Item] = []
                with trio.move_on_after(self._exchange.limits.keep_alive):
                    items = await outbox.take()
                # Everything that waited goes out in one write: 6 to 11 times the events per second.
                if items:
                    await self._exchange.write(b"".join([sse.encode(encode(item)) for item in items]))
                else:
                    await self._exchange.write()
        except ConnectionClosed:
            self._exchange.gone = True
            self.leave()
        except trio.EndOfChannel:
            await self._end()
        finally:
            self.written.set()

    async def _end(self) -> None:
        try:
            await self._exchange.end()
        except ConnectionClosed:
            pass
