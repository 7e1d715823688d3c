"""The event store: streams, each with one writer and a fallback event, and the inboxes of sessions."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import trio

from mcptrio.abc import StoredEvent
from mcptrio.errors import StoreFailed
from mcptrio.stores import INBOX, event_id, read_event_id
from mcptrio_store_postgres.database import PostgresDatabase
from mcptrio_store_postgres.event_reads import Page, completed_after, page
from mcptrio_store_postgres.event_writes import Append, EventWrites
from mcptrio_store_postgres.keys import SessionKeys
from mcptrio_store_postgres.operations import DatabaseOperation

__all__ = ["PostgresEventStore"]

# Seconds after which a failing append is given up.
_APPEND_RETRY_SECONDS: Final = 15.0
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 1.0
# Streams that are completed once the engine works again. Further ones are completed after the end of this process.
_MAX_PENDING: Final = 10_000
# Sessions whose open streams of this process are remembered.
_MAX_SESSIONS: Final = 100_000


class PostgresEventStore:
    """Implements :class:`mcptrio.abc.EventStore`.

    Args:
        writes: The operations that change streams.
        keys: The keys of sessions.
    """

    def __init__(self, database: PostgresDatabase, writes: EventWrites, keys: SessionKeys) -> None:
        self._database = database
        self._writes = writes
        self._keys = keys
        # Streams that this process has begun. If the engine does not have such a stream, it was completed and deleted,
        # and must not begin again.
        self._begun: OrderedDict[str, set[str]] = OrderedDict()
        self._locks: dict[tuple[str, str], trio.Lock] = {}
        self._pending: dict[tuple[str, str], None] = {}

    async def append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        key = self._keys.key(session)
        # One append at a time for each stream, because a repeated append is recognized only if it was the last one.
        async with self._stream_lock(key, stream):
            append = self._append_of(key, stream, data, last=last, will=will)
            work = DatabaseOperation(self._writes.append, append, (key, stream), needs_lease=not append.is_begun)
            position: int = await self._retry(work, append.size)
            if last:
                self._note_ended(key, stream)
            else:
                self._note_begun(key, stream)
        return StoredEvent(event_id(stream, position), data[-1])

    async def settle(self, session: str, stream: str) -> None:
        key = self._keys.key(session)
        self._note_pending(key, stream)
        await self._settle(key, stream)

    async def retry_settlements(self) -> None:
        """Complete the streams whose settlement failed before.

        Raises:
            StoreFailed: The engine failed again.
        """
        for key, stream in list(self._pending):
            await self._settle(key, stream)

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        stream_and_position = read_event_id(event_id)
        if stream_and_position is None:
            return None
        stream, position = stream_and_position
        read = await self._page(session, stream, position + 1)
        if read is None or not read.first <= position + 1 <= read.next:
            return None
        return stream, _events(stream, read), read.is_last

    async def read(self, session: str, stream: str, position: int) -> tuple[list[StoredEvent], bool]:
        read = await self._page(session, stream, position)
        return ([], False) if read is None else (_events(stream, read), read.is_last)

    async def completed_after(self, session: str, stream: str) -> list[str]:
        if not _is_storable(stream):
            return []
        streams: list[str] = await self._database.read(
            DatabaseOperation(completed_after, (self._keys.key(session), stream))
        )
        return streams

    async def put(self, session: str, message: bytes) -> None:
        key = self._keys.key(session)
        append = self._append_of(key, INBOX, (message,), last=False, will=None)
        await self._database.write(DatabaseOperation(self._writes.append, append, (key, INBOX)), append.size)

    async def inbox(self, session: str, position: int) -> tuple[list[bytes], int]:
        read = await self._page(session, INBOX, position)
        if read is None or not read.events:
            return [], position
        return [data for _, data in read.events], read.events[-1][0] + 1

    async def drop(self, session: str) -> None:
        key = self._keys.key(session)
        await self._database.write(DatabaseOperation(self._writes.drop, key, key))
        self.forget(key)

    def forget(self, key: str) -> None:
        """Forget a session that was deleted with its events."""
        self._begun.pop(key, None)
        for owed in [each for each in self._pending if each[0] == key]:
            del self._pending[owed]

    def _append_of(self, key: str, stream: str, data: tuple[bytes, ...], *, last: bool, will: bytes | None) -> Append:
        is_begun = stream in self._begun.get(key, ())
        token = random.getrandbits(62)
        return Append(session=key, stream=stream, data=data, last=last, will=will, token=token, is_begun=is_begun)

    async def _retry(self, work: DatabaseOperation, size: int) -> Any:
        """Execute an append, and repeat it while the engine fails."""
        pause = _FIRST_PAUSE
        give_up = trio.current_time() + _APPEND_RETRY_SECONDS
        while True:
            try:
                return await self._database.write(work, size)
            except StoreFailed:
                if trio.current_time() + pause > give_up:
                    raise
            await trio.sleep(pause)
            pause = min(_MAX_PAUSE, pause * 2)

    async def _settle(self, key: str, stream: str) -> None:
        token = random.getrandbits(62)
        await self._database.write(DatabaseOperation(self._writes.settle, (key, stream, token), (key, stream)))
        self._pending.pop((key, stream), None)
        self._note_ended(key, stream)

    def _note_pending(self, key: str, stream: str) -> None:
        if len(self._pending) < _MAX_PENDING:
            self._pending[key, stream] = None

    async def _page(self, session: str, stream: str, position: int) -> Page | None:
        if not _is_storable(stream):
            return None
        key = self._keys.key(session)
        page_request = (key, stream, position, self._writes.bounds.stream_events, self._writes.age)
        stored_page: Page | None = await self._database.read(DatabaseOperation(page, page_request))
        if stored_page is not None and stored_page.is_last and stored_page.is_unread and stream != INBOX:
            self._database.post(DatabaseOperation(self._writes.mark_read, stored_page.number))
        return stored_page

    def _note_begun(self, key: str, stream: str) -> None:
        self._begun.setdefault(key, set()).add(stream)
        if len(self._begun) > _MAX_SESSIONS:
            self._begun.popitem(last=False)

    def _note_ended(self, key: str, stream: str) -> None:
        begun = self._begun.get(key)
        if begun is not None:
            begun.discard(stream)
            if not begun:
                del self._begun[key]

    @asynccontextmanager
    async def _stream_lock(self, key: str, stream: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault((key, stream), trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop((key, stream), None)


def _events(stream: str, read: Page) -> list[StoredEvent]:
    return [StoredEvent(event_id(stream, position), data) for position, data in read.events]


def _is_storable(stream: str) -> bool:
    """Return True if the engine can store this name of a stream. Clients may send any text."""
    return "\0" not in stream and not any("\ud800" <= character <= "\udfff" for character in stream)
