"""Events of resumable streams, and inboxes: a list and a hash for each stream.

A stream has one writer. The engine compares the writer and the position of each append, so an append that got no
answer is sent again without storing anything twice, and a stream that another replica has completed takes no more.
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
from mcptrio_store_redis.scripts import APPEND, COMPLETED, DROP, KEEP, READ, SETTLE

__all__ = ["RedisEventStore", "settle_command"]

# Seconds that a complete stream is kept after it was read to its end.
_LINGER: Final = 60.0
# Seconds of failure after which an append is given up, and seconds between two attempts.
_GIVE_UP_SECONDS: Final = 15.0
_RETRY: Final = 0.1
# Streams to complete once the engine answers again; further ones wait for the end of this replica.
_OWED: Final = 10_000
# The answer to an append whose position is not that of the stream any more.
_MOVED: Final = -4
# Bytes of a stream's name.
_NAME_BYTES: Final = 512


@define(eq=False)
class _Open:
    """A stream that this replica has begun.

    Attributes:
        position: Of the next event; None if an append got no answer, so the engine has to be asked.
        touched: When the last event was stored or its position was kept.
        is_registered: Whether the engine lists it among the open streams of this replica.
    """

    position: int | None = 0
    touched: float = 0.0
    is_registered: bool = False
    lock: trio.Lock = field(factory=trio.Lock)


class RedisEventStore:
    """
    Args:
        publish: Tells the readers of this process; the scripts tell those of other replicas.
        is_announced: Whether the scripts publish; False if another bus does it.
    """

    def __init__(self, engine: RedisEngine, publish: Callable[[str, bytes], None], *, is_announced: bool) -> None:
        self._engine = engine
        self._keys = engine.keys
        self._publish = publish
        self._is_announced = is_announced
        self._open: dict[tuple[str, str], _Open] = {}
        self._owed: dict[tuple[str, str], None] = {}
        self._numbers = count(1)
        bounds = engine.settings
        self._age = bounds.event_timeout
        self.limits = (bounds.stream_events, bounds.session_bytes, round(self._age * 1000))

    async def append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        _check(stream, data)
        name = session, stream
        line = self._open.get(name)
        if line is None:
            line = self._open[name] = _Open()
        async with line.lock:
            following = await self._append(name, line, data, last, will)
        if following < 0 or last:
            self._close(name, line)
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
            # Complete or unknown, or another replica writes it.
            return
        settled = False
        try:
            await self._settle(name)
            settled = True
        finally:
            if not settled and len(self._owed) < _OWED:
                self._owed[name] = None

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        found = read_event_id(event_id)
        if found is None:
            return None
        stream, position = found
        page = await self._page(session, stream, position + 1, known=True)
        return None if page is None else (stream, *page)

    async def read(self, session: str, stream: str, position: int) -> tuple[list[StoredEvent], bool]:
        page = await self._page(session, stream, position, known=False)
        return page if page is not None else ([], False)

    async def completed_after(self, session: str, stream: str) -> list[str]:
        names = await self._engine.ask(run(COMPLETED, self._keys.base(tag_of(session)), stream))
        return [name.decode("utf-8", "surrogatepass") for name in names]

    async def put(self, session: str, message: bytes) -> None:
        _check(INBOX, (message,))
        await self._engine.change(self._append_command((session, INBOX), -1, (message,), False, None, 0))
        self._publish(session_topic(session), INBOX_MESSAGE)

    async def inbox(self, session: str, position: int) -> tuple[list[bytes], int]:
        found = await self._answer(session, INBOX, position, known=False)
        if found is None:
            return [], position
        first, _, *messages = found
        return messages, first + len(messages) if messages else position

    async def drop(self, session: str) -> None:
        await self._engine.change(run(DROP, self._keys.base(tag_of(session))))
        for name in [each for each in self._open if each[0] == session]:
            self._close(name, self._open[name])

    # Called at the end

    def open_streams(self) -> list[tuple[str, str]]:
        """Return sessions and streams that this replica has begun and not completed, in that order."""
        return list(self._open)

    def wake_readers(self, streams: list[tuple[str, str]]) -> None:
        """Publish on the other bus, if there is one, that streams have changed."""
        for session, stream in streams:
            self._publish(session_topic(session), wake_message(stream))

    # Called by the leases

    async def settle_owed(self) -> None:
        """Complete the streams for which that failed before.

        Raises:
            StoreFailed: The engine does not answer.
        """
        while self._owed:
            name = next(iter(self._owed))
            await self._settle(name)
            self._owed.pop(name, None)

    async def keep_positions(self) -> None:
        """Keep the positions of open streams without recent events, which would expire.

        Raises:
            StoreFailed: The engine does not answer.
        """
        now = trio.current_time()
        quiet = [(name, line) for name, line in self._open.items() if now - line.touched > self._age / 2]
        for (session, stream), line in quiet:
            line.touched = now
            await self._engine.change(run(KEEP, self._keys.base(tag_of(session)), stream, round(self._age * 2000)))

    # Inside

    async def _append(
        self,
        name: tuple[str, str],
        line: _Open,
        data: tuple[bytes, ...],
        last: bool,
        will: bytes | None,
    ) -> int:
        """Append until there is an answer. Returns it: the position after the events, or why there is none."""
        position = line.position
        # Unknown until there is an answer, also if this is cancelled.
        line.position = None
        deadline = trio.current_time() + _GIVE_UP_SECONDS
        # The same for each attempt, so the engine knows an append that it has stored already.
        number = next(self._numbers)
        while True:
            try:
                if position is None:
                    position = await self._position(name)
                commands = [self._append_command(name, position, data, last, will, number)]
                if not line.is_registered:
                    # Registered first: if this replica ends, the others know which streams it has left.
                    commands.insert(0, self._registration("SADD", name))
                answer = await self._engine.change(*commands)
                following: int = answer if line.is_registered else answer[-1]
                line.is_registered = True
                if following == _MOVED:
                    position = None
                    continue
                line.position = following
                line.touched = trio.current_time()
                return following
            except RedisRefused:
                raise
            except StoreFailed:
                if self._engine.is_closed or trio.current_time() > deadline:
                    raise
                await trio.sleep(_RETRY)

    async def _position(self, name: tuple[str, str]) -> int:
        session, stream = name
        key = f"{self._keys.base(tag_of(session))}:h:{stream}"
        position = await self._engine.ask(command(key, "HGET", key, "n"))
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
        await self._engine.change(settle_command(self._keys.base(tag), stream, replica, announcement, self.limits))
        line = self._open.get(name)
        if line is not None:
            self._close(name, line)
        self._publish(session_topic(session), wake_message(stream))

    def _close(self, name: tuple[str, str], line: _Open) -> None:
        if self._open.get(name) is line:
            del self._open[name]
        # Without waiting: a name that stays is removed when this replica ends.
        self._engine.post(self._registration("SREM", name))

    def _registration(self, word: str, name: tuple[str, str]) -> RedisCommand:
        session, stream = name
        key = self._keys.open_streams(self._engine.replica)
        return command(key, word, key, self._listed(session, stream).write())

    def _listed(self, session: str, stream: str) -> OpenStream:
        return OpenStream(tag_of(session), stream, "" if self._is_announced else session)

    async def _page(
        self, session: str, stream: str, position: int, *, known: bool
    ) -> tuple[list[StoredEvent], bool] | None:
        found = await self._answer(session, stream, position, known=known)
        if found is None:
            return None
        first, is_last, *data = found
        return [StoredEvent(event_id(stream, at), each) for at, each in enumerate(data, first)], bool(is_last)

    async def _answer(self, session: str, stream: str, position: int, *, known: bool) -> list[Any] | None:
        base = self._keys.base(tag_of(session))
        linger = round(min(_LINGER, self._age) * 1000)
        # An inbox has no writer that keeps its position, and its reader would miss messages at reused positions.
        keep = round(self._age * 1000) if stream == INBOX else 0
        found: list[Any] | None = await self._engine.ask(
            run(READ, base, stream, position, int(known), MAX_EVENT_PAGE, MAX_EVENT_PAGE_BYTES, linger, keep)
        )
        return found


def settle_command(
    base: str, stream: str, writer: str, announcement: tuple[Argument, Argument], limits: tuple[int, int, int]
) -> RedisCommand:
    """Return the command that completes a stream of a replica with its will."""
    return run(SETTLE, base, stream, writer, *announcement, *limits)


def _check(stream: str, data: tuple[bytes, ...]) -> None:
    if not data:
        raise ValueError("expected at least one event, got none")
    if len(stream.encode()) > _NAME_BYTES:
        raise ValueError(f"expected a name of at most {_NAME_BYTES} bytes, got {len(stream.encode())}")
