"""Answers a message of a revision without sessions.

``HTTPApp`` calls it. The first message of the engine decides the form of the response. If it is the final response, the
body is plain JSON, and an error has its own status. Any other message, or no message in time, makes the response an
event stream. If the client closes the response, the request is cancelled.

Source: MCP 2026-07-28, basic/transports/streamable-http, "Sending Messages"; basic/patterns/cancellation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from mcptrio.abc import Engine, Principal
from mcptrio.errors import ConnectionClosed, Overloaded
from mcptrio.http.server.exchange import COMMENT, Exchange
from mcptrio.http.server.keepalives import Keepalives
from mcptrio.http.server.rules import status_of
from mcptrio.outbox import Outbox
from mcptrio.protocol import sse
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, Response

__all__ = ["answer"]

_LISTEN: Final = "subscriptions/listen"
_MAX_OUTBOX_ITEMS: Final = 256
"""Messages that may wait for a slow client. A handler that sends more waits."""


async def answer(
    engine: Engine,
    exchange: Exchange,
    message: Request | Notification,
    principal: Principal | None,
    keepalives: Keepalives,
) -> None:
    """Have the engine answer one message, and write the messages of the engine."""
    reply = _Reply(exchange, keepalives)
    overloaded: Overloaded | None = None
    stays_open = False

    async def work() -> None:
        nonlocal overloaded, stays_open
        reply.idle[reply] = trio.current_time()
        try:
            stays_open = await engine.answer(
                message,
                reply,
                principal=principal,
                opened=reply.opened,
                may_stay_open=exchange.can_stay_open and exchange.takes_events,
            )
        except Overloaded as error:
            overloaded = error
        finally:
            if not stays_open:
                reply.close()
        if reply.written is not None and not stays_open:
            await reply.written.wait()
            await reply.end()

    if isinstance(message, Request) and message.method == _LISTEN:
        # Other requests end soon, but a subscription may stay open for longer than its token is valid.
        exchange.end_if_unauthorized(partial(reply.cancel_request, "the access token is no longer valid"))
    await exchange.while_connected(work, reply.cancel_request)
    if stays_open:
        reply.keep_open()
        return
    # There is nothing more to write if the client has disconnected or work() has ended the stream.
    if exchange.is_gone or reply.written is not None:
        return
    id = message.id if isinstance(message, Request) else None
    if overloaded is not None:
        await exchange.overloaded(overloaded, id)
    elif reply.final is not None:
        await exchange.reply(status_of(reply.final) if isinstance(reply.final, ErrorResponse) else 200, reply.final)
    elif isinstance(message, Notification):
        await exchange.respond(202)
    else:
        # A shutdown or a deadline has cancelled the request without an answer. HTTP still needs a response.
        await exchange.overloaded(Overloaded("the request was cancelled by the server"), id)


class _Reply:
    """The sink of one request. If the final response comes first, it is kept for a JSON body. Any other message begins
    an event stream.

    The scheduler writes the stream, so an idle stream has no task. ``_writing`` is True while the stream is queued
    there or being written.
    """

    __slots__ = (
        "_cancel",
        "_closed",
        "_exchange",
        "_outbox",
        "_rest",
        "_writers",
        "_writing",
        "final",
        "idle",
        "written",
    )

    def __init__(self, exchange: Exchange, keepalives: Keepalives) -> None:
        self._exchange = exchange
        self._writers = keepalives.writers
        self.idle = keepalives.idle[exchange.limits.keepalive_interval]
        """The idle exchanges that get a keepalive, with the time of their last output."""
        self._outbox: Outbox | None = None
        self._closed = False
        self._cancel: Callable[[str], None] | None = None
        self._writing = False
        self._rest: bytes | memoryview = b""
        """The bytes that the socket did not accept at once."""
        self.final: Response | ErrorResponse | None = None
        self.written: trio.Event | None = None
        """Set when the whole stream has been written; ``None`` if there is no stream, or no task waits for it."""

    def opened(self, cancel: Callable[[str], None]) -> None:
        """See :meth:`mcptrio.abc.Engine.answer`."""
        self._cancel = cancel
        # The client may have disconnected while the request waited for its turn.
        if self._exchange.is_gone:
            self.cancel_request()

    def cancel_request(self, reason: str = "the client closed the response") -> None:
        """Cancel the request: the client has disconnected, or its credentials have expired."""
        cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel(reason)

    async def send(self, message: Message | Sequence[Message]) -> None:
        if self._closed or self.final is not None:
            raise ConnectionClosed("the message cannot be sent: the response is complete")
        if self._outbox is None:
            if isinstance(message, (Response, ErrorResponse)):
                self.final = message
                return
            # A JSON response cannot contain progress and log messages.
            if not self._exchange.takes_events:
                return
            self._begin()
        assert self._outbox is not None
        await self._outbox.send(message)
        if not self._writing and len(self._outbox):
            self._wake()

    def send_latest(self, message: Notification, key: object) -> None:
        if self._closed or self.final is not None or not self._exchange.takes_events:
            return
        if self._outbox is None:
            self._begin()
        assert self._outbox is not None
        self._outbox.send_latest(message, key)
        if not self._writing and len(self._outbox):
            self._wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # Breaks a reference cycle: the function holds the request, which holds this sink.
        self._cancel = None
        self.idle.pop(self, None)
        if self._outbox is not None:
            self._outbox.close()
            if not self._writing:
                self._finish()

    def release(self, retry_ms: int) -> bool:
        """Return ``False``: a stream of a per-request revision cannot be resumed."""
        return False

    def send_keepalive(self) -> None:
        """Show a waiting client that the request is running. A response that is not a stream yet becomes one."""
        if self._outbox is not None:
            if not self._writing and not self._closed:
                self._wake()
        elif self._exchange.takes_events and not self._closed and self.final is None:
            self._begin()

    def keep_open(self) -> None:
        """Continue the stream without the task of the request."""
        self.written = None
        self._exchange.keep_open()

    async def end(self) -> None:
        """End the stream after its last message."""
        if not self._exchange.is_gone:
            try:
                await self._exchange.end()
            except ConnectionClosed:
                pass

    def write_now(self) -> bool:
        """Write all queued messages without waiting. If none are queued, write a comment, which is a keepalive.

        Returns:
            True if the socket has accepted all bytes.
        """
        is_written = False
        try:
            self._rest = self._exchange.write_now(self._take() or COMMENT)
            is_written = True
        finally:
            if not is_written:
                self.abandon()
        if self._rest:
            return False
        self._requeue()
        return True

    async def write(self) -> None:
        """Write the bytes that :meth:`write_now` could not write, and messages that were queued since."""
        is_written = False
        try:
            rest, self._rest = self._rest, b""
            await self._exchange.write_rest(rest)
            # All waiting messages share one write, which gives 6 to 11 times as many events per second.
            while data := self._take():
                await self._exchange.write(data)
            is_written = True
        except ConnectionClosed:
            self._exchange.is_gone = True
        finally:
            if not is_written:
                self.abandon()
        if is_written:
            self._requeue()

    def abandon(self) -> None:
        """Abort the stream, because nothing more can be written."""
        assert self._outbox is not None
        self._exchange.is_gone = True
        # Cancelled first, so that a handler that waits for room does not get an error about the outbox.
        self.cancel_request()
        self._outbox.abort()
        self._writing = False
        self._finish()

    # Private

    def _begin(self) -> None:
        self._outbox = Outbox(_MAX_OUTBOX_ITEMS)
        self.written = trio.Event()
        self._wake()

    def _wake(self) -> None:
        self._writing = True
        self._writers.add(self)

    def _take(self) -> bytes:
        assert self._outbox is not None
        return b"".join([sse.encode(encode(item)) for item in self._outbox.try_take()])

    def _requeue(self) -> None:
        """Queue the stream again if messages arrived during the write."""
        assert self._outbox is not None
        if len(self._outbox):
            self._writers.add(self)
            return
        self._writing = False
        if self._closed:
            self._finish()
        else:
            # Added again at the end, because the exchanges are in the order of their last output.
            self.idle.pop(self, None)
            self.idle[self] = trio.current_time()

    def _finish(self) -> None:
        """Let the waiting task end the response. If no task waits, end the response here."""
        if self.written is not None:
            self.written.set()
        elif self._exchange.is_gone or self._writers.ended:
            self._exchange.close()
        else:
            self._writers.start_soon(self._end_and_close)

    async def _end_and_close(self) -> None:
        try:
            await self.end()
        finally:
            self._exchange.close()
