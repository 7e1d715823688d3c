"""A stream of a session that outlives the response it began on.

Made by the session for a POST that is not answered at once, and for the session's own messages (GET). The engine
sends into it as an :class:`~mcptrio.abc.Outlet`; a pump in the nursery of the HTTP application moves the messages to
the event store; readers, each the response of one HTTP exchange, write what the store has. A reader that leaves
changes nothing: another one, here or on another replica, goes on after the last event it has seen.
The one rule: the store is the truth. A wake-up only says "look again", so a lost one costs a delay, not a message.

Source: MCP 2025-11-25, basic/transports, "Resumability and Redelivery"; SEP-1699.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from mcptrio.abc import EventStore, StoredEvent
from mcptrio.errors import ConnectionClosed
from mcptrio.outbox import Item, Outbox
from mcptrio.protocol import sse
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Response
from mcptrio.transports.http.exchange import Exchange

__all__ = ["Reader", "Stream", "Wakes"]

_OUTBOX: Final = 256
"""Messages that may wait for the pump; then the handler waits."""


class Wakes:
    """Who waits for news of which stream of one session, on this process."""

    def __init__(self) -> None:
        self._events: dict[str, trio.Event] = {}
        self.over = False
        """Whether the session has ended here: no stream of it goes on."""

    def next(self, stream: str) -> trio.Event:
        """Set at the next wake-up of the stream. Take it before looking into the store, then nothing is missed."""
        return self._events.setdefault(stream, trio.Event())

    def wake(self, stream: str) -> None:
        event = self._events.pop(stream, None)
        if event is not None:
            event.set()

    def end(self) -> None:
        self.over = True
        for stream in tuple(self._events):
            self.wake(stream)


class Stream:
    """One stream of one session. The engine's outlet, and what readers here have in common.

    Args:
        expected: responses after which the stream is complete; ``None`` where only :meth:`close` says so.
        primes: whether readers get an event without data first, which gives them an id to resume from.
        announce: tells the other replicas to look into the store.
    """

    def __init__(
        self,
        id: str,
        session: str,
        store: EventStore,
        wakes: Wakes,
        announce: Callable[[str], Awaitable[None]],
        *,
        expected: int | None,
        primes: bool,
        window: int,
    ) -> None:
        self.id = id
        self.outbox = Outbox(_OUTBOX)
        self.primes = primes
        self.readers: list[Reader] = []
        """The newest last; it alone is given events."""
        self.cursor: str | None = None
        """The last event that was written to any reader."""
        self.unread_since = trio.current_time()
        self.patience = trio.CancelScope()
        """Around the wait for a first message, which decides between a plain answer and a stream."""
        self.released = False
        self.broken = False
        """The store has failed: what is missing will never come."""
        self.retry: int | None = None
        self._session = session
        self._store = store
        self._wakes = wakes
        self._announce = announce
        self._expected = expected
        self._window = window

    async def send(self, message: Message | Sequence[Message]) -> None:
        await self.outbox.send(message)

    def offer(self, message: Notification, key: object) -> None:
        self.outbox.offer(message, key)

    def close(self) -> None:
        self.outbox.close()

    def release(self, retry_ms: int) -> bool:
        """End the HTTP response, keep the stream: the client comes back for the rest with ``Last-Event-ID``.

        Returns:
            Whether that is possible; not in a revision that has no priming, where clients would not come back.
        """
        if not self.primes:
            return False
        self.retry = retry_ms
        self.released = True
        self.patience.cancel()
        self.wake()
        return True

    def is_final(self, items: Sequence[Item]) -> bool:
        """Whether these, the first items of the stream, are all there will be, in one message."""
        if len(items) != 1:
            return False
        item = items[0]
        if isinstance(item, ErrorResponse) and item.id is None:
            return True
        return self._expected is not None and _responses(item) >= self._expected

    async def prime(self) -> None:
        await self._append(b"", last=False)

    async def pump(self, items: Sequence[Item] = ()) -> None:
        """Move messages to the store until the stream is complete. Runs in the application's nursery.

        Args:
            items: what was taken from the outbox before.
        """
        left = self._expected
        orderly = False
        try:
            while True:
                for item in items:
                    await self._wait_for_reader()
                    if left is not None:
                        left -= _responses(item)
                    await self._append(encode(item), last=left is not None and left <= 0)
                    if left is not None and left <= 0:
                        orderly = True
                        return
                items = await self.outbox.take()
        except trio.EndOfChannel:
            # Cancelled requests end without a response; an event without data marks the end for whoever resumes.
            await self._append(b"", last=True)
            orderly = True
        except ConnectionClosed:
            pass  # the session has ended
        finally:
            # Whoever still sends learns that nothing goes out any more, and whoever reads that nothing comes.
            self.outbox.abort()
            if not orderly:
                self.broken = True
                self.wake()

    async def _append(self, data: bytes, *, last: bool) -> None:
        await self._store.append(self._session, self.id, data, last=last)
        for reader in self.readers[-1:]:
            reader.behind += 1
        self._wakes.wake(self.id)
        await self._announce(self.id)

    async def _wait_for_reader(self) -> None:
        """Back-pressure: a slow reader is not outrun; one that has stopped is closed by its deadline."""
        while self.readers and self.readers[-1].behind >= self._window:
            await self.readers[-1].moved.wait()

    async def after(self, cursor: str | None) -> tuple[list[StoredEvent], bool] | None:
        """The events after ``cursor`` and whether they are the last; ``None`` when some of them are lost."""
        if cursor is None:
            return await self._store.read(self._session, self.id, 0)
        found = await self._store.after(self._session, cursor)
        return None if found is None else found[1:]

    @property
    def over(self) -> bool:
        return self._wakes.over or self.broken

    def news(self) -> trio.Event:
        return self._wakes.next(self.id)

    def wake(self) -> None:
        self._wakes.wake(self.id)


class Reader:
    """One exchange that reads a stream, from its making until :meth:`leave`.

    Args:
        cursor: the last event the client has, which ends the readers that were here before (a client that resumes has
            lost them). ``None`` starts where the stream's last reader stopped, and leaves the others open as spares
            that take over when this one leaves.
    """

    def __init__(self, stream: Stream, exchange: Exchange, cursor: str | None = None) -> None:
        self.stream = stream
        self.behind = 0
        self.moved = trio.Event()
        self._exchange = exchange
        self._superseded = False
        if cursor is not None:
            stream.cursor = cursor
            for other in stream.readers:
                other._superseded = True
        stream.readers.append(self)
        stream.wake()

    def leave(self) -> None:
        self.stream.readers.remove(self)
        self.stream.unread_since = trio.current_time()
        self._move(self.behind)
        self.stream.wake()

    async def run(self) -> None:
        """Write events until the stream is complete, is released, is over, or another reader has replaced this one.

        Raises:
            ConnectionClosed: the client does not read.
        """
        stream = self.stream
        while not (self._superseded or stream.over):
            news = stream.news()
            events: list[StoredEvent] = []
            if stream.readers[-1] is self:
                found = await stream.after(stream.cursor)
                if found is None:
                    return
                events, complete = found
                if events:
                    self.behind = len(events)
                    await self._exchange.write(self._encode(events, complete))
                    stream.cursor = events[-1].id
                    self._move(len(events))
                if complete:
                    return
                if stream.released:
                    stream.released = False
                    await self._exchange.write(b"retry: %d\n\n" % (stream.retry or 0))
                    return
            if not events:
                with trio.move_on_after(self._exchange.limits.keep_alive) as silence:
                    await news.wait()
                if silence.cancelled_caught:
                    await self._exchange.write()

    def _encode(self, events: Sequence[StoredEvent], complete: bool) -> bytes:
        parts = []
        for event in events:
            if event.data:
                parts.append(sse.encode(event.data, id=event.id))
            elif not (complete and event is events[-1]):
                retry = self.stream.retry if self.stream.retry is not None else self._exchange.limits.retry
                parts.append(sse.encode(b"", id=event.id, retry=retry))
        return b"".join(parts) or sse.comment()

    def _move(self, written: int) -> None:
        self.behind = max(0, self.behind - written)
        self.moved.set()
        self.moved = trio.Event()


def _responses(item: Item) -> int:
    if isinstance(item, (Response, ErrorResponse)):
        return 1
    if isinstance(item, Sequence):
        return sum(isinstance(each, (Response, ErrorResponse)) for each in item)
    return 0
