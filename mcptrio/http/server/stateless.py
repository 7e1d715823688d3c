"""A message of a per-request revision, from the engine to the response.

``HTTPApp`` calls it. The first message decides the form of the response. A final response alone is plain JSON, and an
error has its own status. Any other message, or none in time, makes it an event stream. If the client closes the
response, the request is cancelled.

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
"""Messages that may wait for a slow reader; then the handler waits."""


async def answer(
    engine: Engine,
    exchange: Exchange,
    message: Request | Notification,
    principal: Principal | None,
    keepalives: Keepalives,
) -> None:
    """Have the engine answer one message, and write its messages."""
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
        # Other requests end soon; a subscription may stay open for longer than its token is valid.
        exchange.end_if_unauthorized(partial(reply.leave, "the access token is no longer valid"))
    await exchange.while_connected(work, reply.leave)
    if stays_open:
        reply.keep_open()
        return
    # Nothing more to write: the client has disconnected, or work() has ended the stream.
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
        # The server cancelled it, by a shutdown or a deadline, without an answer. HTTP needs a status even so.
        await exchange.overloaded(Overloaded("the request was cancelled by the server"), id)


class _Reply:
    """The sink of one request: keeps the first message until the form of the response is known.

    The stream writers write a stream, and no task exists while it is idle: ``_writing`` is set when something is
    queued.
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
        """The exchanges that get a keepalive when they have been idle, with the time of their last output."""
        self._outbox: Outbox | None = None
        self._closed = False
        self._cancel: Callable[[str], None] | None = None
        self._writing = False
        self._rest: bytes | memoryview = b""
        """The part that the socket did not accept at once."""
        self.final: Response | ErrorResponse | None = None
        self.written: trio.Event | None = None
        """Set when everything on the stream has been written; ``None`` while there is none."""

    def opened(self, cancel: Callable[[str], None]) -> None:
        """See :meth:`mcptrio.abc.Engine.answer`."""
        self._cancel = cancel
        # The client may have left while the request waited for its turn.
        if self._exchange.is_gone:
            self.leave()

    def leave(self, reason: str = "the client closed the response") -> None:
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
            # Progress and log messages have no place in a JSON response.
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
        """Show a waiting client that the request is running; the response becomes a stream if it is not yet one."""
        if self._outbox is not None:
            if not self._writing and not self._closed:
                self._wake()
        elif self._exchange.takes_events and not self._closed and self.final is None:
            self._begin()

    def keep_open(self) -> None:
        """Continue the stream without the task that has begun it."""
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
        """Write all queued messages, or a comment if none are queued, which shows that the request is running.

        Returns:
            Whether that was possible without waiting.
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
        self._rewrite()
        return True

    async def write(self) -> None:
        """Write the rest of :meth:`write_now`, and messages queued since."""
        is_written = False
        try:
            rest, self._rest = self._rest, b""
            await self._exchange.write_rest(rest)
            # Everything that waited goes out in one write: 6 to 11 times the events per second.
            while data := self._take():
                await self._exchange.write(data)
            is_written = True
        except ConnectionClosed:
            self._exchange.is_gone = True
        finally:
            if not is_written:
                self.abandon()
        if is_written:
            self._rewrite()

    def abandon(self) -> None:
        """Abort the stream, because nothing more can be written."""
        assert self._outbox is not None
        self._exchange.is_gone = True
        # First, so that a handler that waits for room is cancelled and does not get an error about a full outbox.
        self.leave()
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

    def _rewrite(self) -> None:
        """Queue the stream again if messages arrived during the write."""
        assert self._outbox is not None
        if len(self._outbox):
            self._writers.add(self)
            return
        self._writing = False
        if self._closed:
            self._finish()
        else:
            # Something has just been written, so it is the last one to become due.
            self.idle.pop(self, None)
            self.idle[self] = trio.current_time()

    def _finish(self) -> None:
        """Mark the stream as written. The waiting task ends the response; if no task waits, this method does."""
        if self.written is not None:
            self.written.set()
        elif self._exchange.is_gone or self._writers.ended:
            self._exchange.close()
        else:
            self._writers.start_soon(self._end_alone)

    async def _end_alone(self) -> None:
        try:
            await self.end()
        finally:
            self._exchange.close()
