"""Events of resumable streams, and inboxes. Each stream has a list and a hash.

A stream has one writer. The engine compares the writer and the position of each append. So an append that got no answer
can be repeated without storing an event twice, and a stream that another replica has completed refuses further events.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

import trio
from attrs import define, field

from mcptrio.abc import INBOX_MESSAGE, StoredEvent, session_topic, wake_message
from mcptrio.errors import ConnectionClosed, StoreFailed
from mcptrio.stores import INBOX, MAX_EVENT_PAGE, MAX_EVENT_PAGE_BYTES, event_id, read_event_id
from mcptrio_store_redis.commands import Argument, OpenStream, RedisCommand, RedisRefused, command, run
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.keys import tag_of
from mcptrio_store_redis.scripts import APPEND, COMPLETED, DROP, KEEP_POSITION, READ, SETTLE

__all__ = ["RedisEventStore", "settle_command"]

# Seconds for which a complete stream is kept after it was read to its end.
_LINGER_SECONDS: Final = 60.0
# Seconds after which a failing append is given up, and seconds between two attempts.
_GIVE_UP_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 0.1
# Streams that are completed once the engine answers again. Further ones are completed after the end of this replica.
_MAX_PENDING: Final = 10_000
# The answer to an append whose position is no longer that of the stream.
_MOVED: Final = -4
# Bytes of a stream's name.
_NAME_BYTES: Final = 512


@define(eq=False)
class _StreamState:
    """A stream that this replica has begun.

    Attributes:
        position: The position of the next event; ``None`` if it must be read, because an append got no answer.
        touched: Trio clock time at which the last event was stored, or the position was kept.
        is_registered: True if the stream is in the engine's set of open streams of this replica.
    """

    position: int | None = 0
    touched: float = 0.0
    is_registered: bool = False
    lock: trio.Lock = field(factory=trio.Lock)


class RedisEventStore:
    """Implements :class:`mcptrio.abc.EventStore`.

    Args:
        publish: Wakes readers: those of this process if the scripts publish, otherwise all, through the other bus.
        is_announced: True if the scripts publish for the other replicas.
    """

    def __init__(self, engine: RedisEngine, publish: Callable[[str, bytes], None], *, is_announced: bool) -> None:
        self._engine = engine
        self._keys = engine.keys
        self._publish = publish
        self._is_announced = is_announced
        self._open: dict[tuple[str, str], _StreamState] = {}
        self._pending: dict[tuple[str, str], None] = {}
        self._numbers = count(1)
        bounds = engine.settings
        self._age = bounds.event_timeout
        self.limits = (bounds.stream_events, bounds.session_bytes, round(self._age * 1000))

    async def append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        _check(stream, data)
        name = session, stream
        state = self._open.get(name)
        if state is None:
            state = self._open[name] = _StreamState()
        async with state.lock:
            following = await self._append(name, state, data, last, will)
        if following < 0 or last:
            self._close(name, state)
        if following == -1:
            raise ConnectionClosed("the stream is complete")
        if following < 0:
            reason = "its events were dropped" if following == -2 else "another replica writes it"
            raise ConnectionClosed(f"the stream takes no more events: {reason}")
        self._publish(session_topic(session), wake_message(stream))
        return StoredEvent(event_id(stream, following - 1), data[-1])

    async def settle(self, session: str, stream: str) -> None:
        name = session, stream
        if name not in self._open:
            # The stream is complete or unknown, or another replica writes it.
            return
        settled = False
        try:
            await self._settle(name)
            settled = True
        finally:
            if not settled and len(self._pending) < _MAX_PENDING:
                self._pending[name] = None

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        stream_and_position = read_event_id(event_id)
        if stream_and_position is None:
            return None
        stream, position = stream_and_position
        page = await self._page(session, stream, position + 1, known=True)
        return None if page is None else (stream, *page)

    async def read(self, session: str, stream: str, position: int) -> tuple[list[StoredEvent], bool]:
        page = await self._page(session, stream, position, known=False)
        return page if page is not None else ([], False)

    async def completed_after(self, session: str, stream: str) -> list[str]:
        names = await self._engine.read(run(COMPLETED, self._keys.base(tag_of(session)), stream))
        return [name.decode("utf-8", "surrogatepass") for name in names]

    async def put(self, session: str, message: bytes) -> None:
        _check(INBOX, (message,))
        await self._engine.write(self._append_command((session, INBOX), -1, (message,), False, None, 0))
        self._publish(session_topic(session), INBOX_MESSAGE)

    async def inbox(self, session: str, position: int) -> tuple[list[bytes], int]:
        answer = await self._answer(session, INBOX, position, known=False)
        if answer is None:
            return [], position
        first, _, *messages = answer
        return messages, first + len(messages) if messages else position

    async def drop(self, session: str) -> None:
        await self._engine.write(run(DROP, self._keys.base(tag_of(session))))
        for name in [each for each in self._open if each[0] == session]:
            self._close(name, self._open[name])

    # Called at the end

    def open_streams(self) -> list[tuple[str, str]]:
        """Return the sessions and names of the streams that this replica has begun and not completed, oldest first."""
        return list(self._open)

    def wake_readers(self, streams: list[tuple[str, str]]) -> None:
        """Wake the readers of streams."""
        for session, stream in streams:
            self._publish(session_topic(session), wake_message(stream))

    # Called by the leases

    async def retry_settlements(self) -> None:
        """Complete the streams whose completion failed before.

        Raises:
            StoreFailed: The engine does not answer.
        """
        while self._pending:
            name = next(iter(self._pending))
            await self._settle(name)
            self._pending.pop(name, None)

    async def keep_positions(self) -> None:
        """Keep the positions of open streams without recent events, which would expire otherwise.

        Raises:
            StoreFailed: The engine does not answer.
        """
        now = trio.current_time()
        quiet = [(name, state) for name, state in self._open.items() if now - state.touched > self._age / 2]
        for (session, stream), state in quiet:
            state.touched = now
            await self._engine.write(
                run(KEEP_POSITION, self._keys.base(tag_of(session)), stream, round(self._age * 2000))
            )

    # Private

    async def _append(
        self,
        name: tuple[str, str],
        state: _StreamState,
        data: tuple[bytes, ...],
        last: bool,
        will: bytes | None,
    ) -> int:
        """Send an append until it is answered. Return the answer: the position after the events, or a negative code."""
        position = state.position
        # Unknown until there is an answer, which there is not if this is cancelled.
        state.position = None
        deadline = trio.current_time() + _GIVE_UP_SECONDS
        # The same number in each attempt, by which the engine recognizes an append that it has already stored.
        number = next(self._numbers)
        while True:
            try:
                if position is None:
                    position = await self._position(name)
                commands = [self._append_command(name, position, data, last, will, number)]
                if not state.is_registered:
                    # Registered first, so that the other replicas can complete the stream if this one ends.
                    commands.insert(0, self._registration("SADD", name))
                answer = await self._engine.write(*commands)
                following: int = answer if state.is_registered else answer[-1]
                state.is_registered = True
                if following == _MOVED:
                    position = None
                    continue
                state.position = following
                state.touched = trio.current_time()
                return following
            except RedisRefused:
                raise
            except StoreFailed:
                if self._engine.is_closed or trio.current_time() > deadline:
                    raise
                await trio.sleep(_RETRY_SECONDS)

    async def _position(self, name: tuple[str, str]) -> int:
        session, stream = name
        key = f"{self._keys.base(tag_of(session))}:h:{stream}"
        position = await self._engine.read(command(key, "HGET", key, "n"))
        return int(position or 0)

    def _append_command(
        self,
        name: tuple[str, str],
        position: int,
        data: tuple[bytes, ...],
        last: bool,
        will: bytes | None,
        number: int,
    ) -> RedisCommand:
        session, stream = name
        tag = tag_of(session)
        is_inbox = stream == INBOX
        return run(
            APPEND,
            self._keys.base(tag),
            stream,
            position,
            # Every replica may put messages into an inbox.
            "" if is_inbox else self._engine.replica,
            int(last),
            int(will is not None),
            will or b"",
            *self._announcement(tag, INBOX_MESSAGE if is_inbox else wake_message(stream)),
            *self.limits,
            number,
            *data,
        )

    def _announcement(self, tag: str, message: bytes) -> tuple[Argument, Argument]:
        if not self._is_announced:
            return "", b""
        return self._keys.channel_of(tag), self._engine.replica.encode() + message

    async def _settle(self, name: tuple[str, str]) -> None:
        session, stream = name
        tag = tag_of(session)
        announcement = self._announcement(tag, wake_message(stream))
        replica = self._engine.replica
        await self._engine.write(settle_command(self._keys.base(tag), stream, replica, announcement, self.limits))
        state = self._open.get(name)
        if state is not None:
            self._close(name, state)
        self._publish(session_topic(session), wake_message(stream))

    def _close(self, name: tuple[str, str], state: _StreamState) -> None:
        if self._open.get(name) is state:
            del self._open[name]
        # Not awaited: a name that is left in the set is removed when this replica ends.
        self._engine.post(self._registration("SREM", name))

    def _registration(self, word: str, name: tuple[str, str]) -> RedisCommand:
        session, stream = name
        key = self._keys.open_streams(self._engine.replica)
        return command(key, word, key, self._open_stream(session, stream).write())

    def _open_stream(self, session: str, stream: str) -> OpenStream:
        return OpenStream(tag_of(session), stream, "" if self._is_announced else session)

    async def _page(
        self, session: str, stream: str, position: int, *, known: bool
    ) -> tuple[list[StoredEvent], bool] | None:
        answer = await self._answer(session, stream, position, known=known)
        if answer is None:
            return None
        first, is_last, *data = answer
        return [StoredEvent(event_id(stream, at), each) for at, each in enumerate(data, first)], bool(is_last)

    async def _answer(self, session: str, stream: str, position: int, *, known: bool) -> list[Any] | None:
        base = self._keys.base(tag_of(session))
        linger = round(min(_LINGER_SECONDS, self._age) * 1000)
        # An inbox has no writer that keeps its position, and its reader would miss messages at reused positions.
        keep = round(self._age * 1000) if stream == INBOX else 0
        reply: list[Any] | None = await self._engine.read(
            run(READ, base, stream, position, int(known), MAX_EVENT_PAGE, MAX_EVENT_PAGE_BYTES, linger, keep)
        )
        return reply


def settle_command(
    base: str, stream: str, writer: str, announcement: tuple[Argument, Argument], limits: tuple[int, int, int]
) -> RedisCommand:
    """Return the command that completes a stream of a replica with its fallback event."""
    return run(SETTLE, base, stream, writer, *announcement, *limits)


def _check(stream: str, data: tuple[bytes, ...]) -> None:
    if not data:
        raise ValueError("expected at least one event, got none")
    if len(stream.encode()) > _NAME_BYTES:
        raise ValueError(f"expected a name of at most {_NAME_BYTES} bytes, got {len(stream.encode())}")
