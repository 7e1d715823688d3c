"""An event store in a SQLite file, with the contract and limits of :class:`mcptrio.stores.memory.MemoryEventStore`.

It also completes the streams of ended processes, each with its fallback event (``will``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from attrs import define, frozen

from mcptrio.abc import INBOX_MESSAGE, Bus, StoredEvent, session_topic, wake_message
from mcptrio.errors import ConnectionClosed
from mcptrio.stores.event_ids import INBOX, position_of, read_event_id
from mcptrio.stores.event_ids import event_id as id_of
from mcptrio.stores.process_locks import ProcessRegistry
from mcptrio.stores.settings import MAX_EVENT_PAGE, MAX_EVENT_PAGE_BYTES
from mcptrio.stores.sqlite_database import Database
from mcptrio.stores.wall_clock import WallClock

__all__ = ["SQLiteEventStore", "drop_events"]

# Bytes that an event costs in addition to its data, as in memory; in the file it is less.
_EVENT_COST: Final = 160
# Streams that each append checks for expiry.
_MAX_EXPIRED: Final = 4
# Streams that are completed in one transaction.
_MAX_SETTLED: Final = 200
# Streams that are completed once the store can write again. Further ones are completed after the end of this process.
_MAX_UNSETTLED: Final = 10_000


@frozen(kw_only=True)
class _Append:
    session: str
    stream: str
    data: tuple[bytes, ...]
    last: bool
    will: bytes | None
    now: float


@define
class _StreamRow:
    """A row of the table streams."""

    key: int
    first: int
    next: int
    complete: int
    will: bytes
    writer: str


class SQLiteEventStore:
    """Events of resumable streams, and inboxes. Made by :func:`mcptrio.stores.sqlite.open_sqlite_stores`.

    Args:
        clock: The clock for ages.
        processes: Shows which writers still run.
        stream_events: Events of one stream.
        session_bytes: Bytes of one session.
        total_bytes: Bytes of all sessions; events of the least recently active session are dropped first.
        event_timeout: Seconds without a new event after which the events of a stream are dropped.
        bus: Wakes the readers in other processes; ``None`` if these poll for new events.
    """

    def __init__(
        self,
        database: Database,
        clock: WallClock,
        processes: ProcessRegistry,
        *,
        stream_events: int,
        session_bytes: int,
        total_bytes: int,
        event_timeout: float,
        bus: Bus | None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._processes = processes
        self._stream_events = stream_events
        self._session_bytes = session_bytes
        self._total_bytes = total_bytes
        self._event_timeout = event_timeout
        # Streams to complete as soon as the store can write.
        self._unsettled: dict[tuple[str, str], None] = {}
        self._bus = bus

    async def append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        work = _Append(session=session, stream=stream, data=data, last=last, will=will, now=self._clock.now())
        position = await self._database.write(partial(self._append, work=work))
        self._wake(session, stream)
        return StoredEvent(id_of(stream, position), data[-1])

    async def settle(self, session: str, stream: str) -> None:
        settled = False
        try:
            await self._database.write(partial(self._settle, session=session, stream=stream, now=self._clock.now()))
            settled = True
        finally:
            if not settled and len(self._unsettled) < _MAX_UNSETTLED:
                self._unsettled[session, stream] = None
        self._wake(session, stream)

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        place = read_event_id(event_id)
        if place is None:
            return None
        stream, position = place
        page = await self._database.read(
            partial(_page, session=session, stream=stream, position=position + 1, known=True)
        )
        return None if page is None else (stream, *page)

    async def read(self, session: str, stream: str, position: int) -> tuple[list[StoredEvent], bool]:
        page = await self._database.read(partial(_page, session=session, stream=stream, position=position, known=False))
        return page if page is not None else ([], False)

    async def completed_after(self, session: str, stream: str) -> list[str]:
        return await self._database.read(partial(_later_completed_streams, session=session, stream=stream))

    async def put(self, session: str, message: bytes) -> None:
        work = _Append(session=session, stream=INBOX, data=(message,), last=False, will=None, now=self._clock.now())
        await self._database.write(partial(self._append, work=work))
        if self._bus is not None:
            self._bus.publish(session_topic(session), INBOX_MESSAGE)

    async def inbox(self, session: str, position: int) -> tuple[list[bytes], int]:
        events, _ = await self.read(session, INBOX, position)
        return [event.data for event in events], position_of(events[-1].id) + 1 if events else position

    async def drop(self, session: str) -> None:
        await self._database.write(partial(drop_events, session=session))

    async def settle_writers(self, writers: Sequence[str]) -> None:
        """Complete the streams of ended processes, and the streams whose completion failed before.

        Raises:
            StoreFailed: The file cannot be written.
        """
        for id in writers:
            while await self._database.write(partial(self.settle_writer, writer=id, now=self._clock.now())):
                pass
        while self._unsettled:
            session, stream = next(iter(self._unsettled))
            await self._database.write(partial(self._settle, session=session, stream=stream, now=self._clock.now()))
            self._unsettled.pop((session, stream), None)
            self._wake(session, stream)

    def _wake(self, session: str, stream: str) -> None:
        if self._bus is not None:
            self._bus.publish(session_topic(session), wake_message(stream))

    # In a thread

    def settle_writer(self, connection: sqlite3.Connection, *, writer: str, now: float) -> bool:
        """Complete streams of a writer that has ended, and delete the writer with its last stream.

        Returns:
            True if there may be more streams.
        """
        rows = connection.execute(
            "SELECT session, name FROM streams WHERE writer = ? AND NOT complete LIMIT ?", (writer, _MAX_SETTLED)
        ).fetchall()
        for session, stream in rows:
            self._settle(connection, session=session, stream=stream, now=now)
        if len(rows) < _MAX_SETTLED:
            connection.execute("DELETE FROM writers WHERE id = ?", (writer,))
            return False
        return True

    def _settle(self, connection: sqlite3.Connection, *, session: str, stream: str, now: float) -> None:
        row = _stream_row(connection, session, stream)
        if row is not None and not row.complete:
            last = _Append(session=session, stream=stream, data=(row.will,), last=True, will=None, now=now)
            self._append(connection, work=last)

    def _append(self, connection: sqlite3.Connection, *, work: _Append) -> int:
        """Append events; return the position of the last. Positions, sums and deletions are part of one transaction."""
        session, now, count = work.session, work.now, len(work.data)
        size = sum(map(len, work.data)) + count * _EVENT_COST
        # Every process may put messages into an inbox, so no process is its writer.
        writer = "" if work.stream == INBOX else self._processes.id
        row = _stream_row(connection, session, work.stream)
        if row is None:
            key = connection.execute(
                "INSERT INTO streams (session, name, first, next, complete, touched, will, writer)"
                " VALUES (?, ?, 0, 0, 0, ?, x'', ?)",
                (session, work.stream, now, writer),
            ).lastrowid
            assert key is not None
            row = _StreamRow(key, 0, 0, 0, b"", writer)
        elif row.complete:
            raise ConnectionClosed("the stream is complete")
        connection.executemany(
            "INSERT INTO events (stream, position, data) VALUES (?, ?, ?)",
            [(row.key, at, data) for at, data in enumerate(work.data, row.next)],
        )
        following = row.next + count
        will = b"" if work.last else row.will if work.will is None else work.will
        connection.execute(
            "UPDATE streams SET next = ?, complete = ?, touched = ?, will = ?, writer = ? WHERE key = ?",
            (following, work.last, now, will, writer, row.key),
        )
        session_bytes = connection.execute(
            "INSERT INTO kept VALUES (?, ?, ?)"
            " ON CONFLICT (session) DO UPDATE SET bytes = bytes + excluded.bytes, touched = excluded.touched"
            " RETURNING bytes",
            (session, size, now),
        ).fetchone()[0]
        total = connection.execute(
            "UPDATE sums SET value = value + ? WHERE name = 'event_bytes' RETURNING value", (size,)
        ).fetchone()[0]
        newest = (row.key, following - 1)
        if following - row.first > self._stream_events:
            freed = _drop_before(connection, session, row.key, following - self._stream_events)
            session_bytes, total = session_bytes - freed, total - freed
        if session_bytes > self._session_bytes:
            total -= _drop_oldest(connection, session, newest, session_bytes - self._session_bytes)
        while total > self._total_bytes and (
            freed := _drop_from_others(connection, session, newest, total - self._total_bytes)
        ):
            total -= freed
        self._drop_aged(connection, now)
        return following - 1

    def _drop_aged(self, connection: sqlite3.Connection, now: float) -> None:
        """Drop the events of expired streams. Each append checks a few, so expiry needs no task."""
        rows = connection.execute(
            "SELECT key, session, next, complete FROM streams WHERE next > first AND touched <= ?"
            " ORDER BY touched LIMIT ?",
            (now - self._event_timeout, _MAX_EXPIRED),
        ).fetchall()
        for key, session, following, complete in rows:
            _drop_before(connection, session, key, following)
            if not complete:
                connection.execute("UPDATE streams SET touched = ? WHERE key = ?", (now, key))


def _stream_row(connection: sqlite3.Connection, session: str, stream: str) -> _StreamRow | None:
    row = connection.execute(
        "SELECT key, first, next, complete, will, writer FROM streams WHERE session = ? AND name = ?",
        (session, stream),
    ).fetchone()
    return _StreamRow(*row) if row is not None else None


def _page(
    connection: sqlite3.Connection, *, session: str, stream: str, position: int, known: bool
) -> tuple[list[StoredEvent], bool] | None:
    """Return one page of events from a position, and whether it ends the stream; ``None`` if the stream is unknown.

    Args:
        known: True to return ``None`` too if the stream has not reached the position, or events after it were dropped.
    """
    row = _stream_row(connection, session, stream)
    if row is None or (known and not row.first <= position <= row.next):
        return None
    events: list[StoredEvent] = []
    size, following = 0, max(position, row.first)
    rows = connection.execute(
        "SELECT position, data FROM events WHERE stream = ? AND position >= ? ORDER BY position LIMIT ?",
        (row.key, following, MAX_EVENT_PAGE),
    )
    for at, data in rows:
        if events and size + len(data) > MAX_EVENT_PAGE_BYTES:
            break
        events.append(StoredEvent(id_of(stream, at), data))
        size += len(data)
        following = at + 1
    return events, bool(row.complete) and following >= row.next


def _later_completed_streams(connection: sqlite3.Connection, *, session: str, stream: str) -> list[str]:
    rows = connection.execute(
        "SELECT later.name FROM streams AS one JOIN streams AS later USING (session)"
        " WHERE session = ? AND one.name = ? AND later.key > one.key AND later.complete ORDER BY later.key",
        (session, stream),
    )
    return [name for (name,) in rows]


def _drop_oldest(connection: sqlite3.Connection, session: str, newest: tuple[int, int], excess: int) -> int:
    """Drop the oldest events of a session, except ``newest``, until ``excess`` bytes are free.

    Return the bytes freed.
    """
    rows = connection.execute(
        "SELECT key, position, length(data) FROM streams CROSS JOIN events ON stream = key"
        " WHERE session = ? AND next > first ORDER BY complete DESC, touched, key, position",
        (session,),
    )
    # All writers wait for this, and one large event can replace thousands of small ones, so delete in bulk.
    freed, before = 0, {}
    for key, position, size in rows:
        if (key, position) != newest:
            before[key] = position + 1
            freed += size + _EVENT_COST
            if freed >= excess:
                break
    rows.close()
    _drop_up_to(connection, session, before, freed)
    return freed


def _drop_from_others(connection: sqlite3.Connection, session: str, newest: tuple[int, int], excess: int) -> int:
    """Drop events of the least recently active other session, or of this one if no other has any.

    Return the bytes freed.
    """
    row = connection.execute(
        "SELECT session FROM kept WHERE bytes > 0 AND session != ? ORDER BY touched LIMIT 1", (session,)
    ).fetchone()
    return _drop_oldest(connection, row[0] if row is not None else session, newest, excess)


def _drop_before(connection: sqlite3.Connection, session: str, key: int, position: int) -> int:
    """Drop the events of a stream before a position. Return the bytes freed."""
    freed = int(
        connection.execute(
            "SELECT coalesce(sum(length(data) + ?), 0) FROM events WHERE stream = ? AND position < ?",
            (_EVENT_COST, key, position),
        ).fetchone()[0]
    )
    _drop_up_to(connection, session, {key: position}, freed)
    return freed


def _drop_up_to(connection: sqlite3.Connection, session: str, before: Mapping[int, int], freed: int) -> None:
    """Drop the events of each stream before its position. Complete streams without events are removed."""
    rows = [(key, position) for key, position in before.items()]
    connection.executemany("DELETE FROM events WHERE stream = ? AND position < ?", rows)
    connection.executemany("UPDATE streams SET first = ?2 WHERE key = ?1", rows)
    connection.executemany(
        "DELETE FROM streams WHERE key = ? AND complete AND first >= next", [(key,) for key in before]
    )
    connection.execute("UPDATE kept SET bytes = bytes - ? WHERE session = ?", (freed, session))
    connection.execute(
        "DELETE FROM kept WHERE session = ? AND bytes = 0 AND NOT EXISTS (SELECT 1 FROM streams WHERE session = ?)",
        (session, session),
    )
    connection.execute("UPDATE sums SET value = value - ? WHERE name = 'event_bytes'", (freed,))


def drop_events(connection: sqlite3.Connection, session: str) -> None:
    """Delete all events of a session."""
    connection.execute("DELETE FROM events WHERE stream IN (SELECT key FROM streams WHERE session = ?)", (session,))
    connection.execute("DELETE FROM streams WHERE session = ?", (session,))
    row = connection.execute("DELETE FROM kept WHERE session = ? RETURNING bytes", (session,)).fetchone()
    if row is not None:
        connection.execute("UPDATE sums SET value = value - ? WHERE name = 'event_bytes'", row)
