"""The session store. The last use of a session has a coarse resolution, so loading a session rarely writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from mcptrio.abc import SessionRecord
from mcptrio.errors import Overloaded
from mcptrio.stores import StoreBounds, read_record, write_record
from mcptrio_store_postgres.database import PostgresDatabase
from mcptrio_store_postgres.failures import EngineFull
from mcptrio_store_postgres.keys import SessionKeys
from mcptrio_store_postgres.operations import DatabaseOperation, OperationBatch, Results

__all__ = ["PostgresSessionStore"]

# The last use of a session is stored with a resolution of the idle timeout divided by this.
_RESOLUTION: Final = 30
# Sessions that are deleted in one transaction, and those that are deleted to make room for a new one.
_MAX_EXPIRED: Final = 500
_MAX_EXPIRED_FOR_ROOM: Final = 20

_INSERT: Final = """
INSERT INTO sessions (id, record, generation)
SELECT id, record, 1 FROM unnest(%s::text[], %s::bytea[]) WITH ORDINALITY AS w (id, record, nth) ORDER BY nth
ON CONFLICT (id) DO NOTHING RETURNING id
"""
_UPDATE: Final = """
UPDATE sessions AS s SET record = w.record, generation = s.generation + 1, used = now()
FROM (
    SELECT s.id, w.record, w.generation FROM sessions AS s
    JOIN unnest(%s::text[], %s::bytea[], %s::bigint[]) AS w (id, record, generation) USING (id)
    ORDER BY id FOR UPDATE OF s
) AS w
WHERE s.id = w.id AND s.generation = w.generation RETURNING s.id
"""
_LOAD: Final = """
SELECT record, used < now() - %s * interval '1 s' FROM sessions
WHERE id = %s AND used > now() - %s * interval '1 s'
"""
# The events of the sessions are deleted in the same transaction, because perhaps no replica knows the ids any more.
_EXPIRE: Final = """
WITH due AS (
    SELECT id FROM sessions WHERE used <= now() - %s * interval '1 s' ORDER BY used LIMIT %s FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM sessions USING due WHERE sessions.id = due.id RETURNING sessions.id
), streams_gone AS (
    DELETE FROM streams USING due WHERE session = due.id RETURNING number
), events_gone AS (
    DELETE FROM events USING streams_gone WHERE stream = number
)
SELECT id FROM gone
"""


@frozen
class _Save:
    key: str
    data: bytes
    generation: int


class PostgresSessionStore:
    """Implements :class:`mcptrio.abc.SessionStore`.

    Args:
        keys: The keys of sessions.
        forget: A function called with the key of a session that has expired with its events.
    """

    def __init__(
        self, database: PostgresDatabase, keys: SessionKeys, *, bounds: StoreBounds, forget: Callable[[str], None]
    ) -> None:
        self._database = database
        self._keys = keys
        self._idle = bounds.idle_timeout
        self._max_sessions = bounds.max_sessions
        self._forget = forget
        # Expired sessions that made room for new ones; the next expire() returns them.
        self._dropped_keys: deque[str] = deque()
        # The number of sessions that may be added before they are counted again. Used by the writer's thread only.
        self._free_count = 0
        self.replicas = 1

    async def save(self, record: SessionRecord) -> SessionRecord | None:
        stored = evolve(record, generation=record.generation + 1)
        # The row has the hash of the id; the id itself is not stored.
        operation = _Save(self._keys.key(record.id), write_record(evolve(stored, id="")), record.generation)
        kind = self._update if record.generation else self._insert
        try:
            is_stored = await self._database.write(
                DatabaseOperation(kind, operation, operation.key), len(operation.data)
            )
        except EngineFull as error:
            if record.generation:
                raise
            raise Overloaded("too many sessions: the store is full") from error
        return stored if is_stored else None

    async def load(self, id: str) -> SessionRecord | None:
        key = self._keys.key(id)
        row = await self._database.read(DatabaseOperation(self._load, key))
        if row is None:
            return None
        data, is_due = row
        if is_due:
            self._database.post(DatabaseOperation(_use, key))
        return evolve(read_record(data, f"{self._database.address.label}: session {key}"), id=id)

    async def delete(self, id: str) -> bool:
        key = self._keys.key(id)
        return bool(await self._database.write(DatabaseOperation(self._delete, key, key)))

    async def expire(self) -> list[str]:
        """See :class:`mcptrio.abc.SessionStore`. Returns only ids of sessions that this process has used; the events of
        all are deleted."""
        keys: list[str] = await self._database.write(DatabaseOperation(self._expire, _MAX_EXPIRED))
        while self._dropped_keys:
            keys.append(self._dropped_keys.popleft())
        ids = []
        for key in keys:
            self._forget(key)
            id = self._keys.forget(key)
            if id is not None:
                ids.append(id)
        return ids

    # In a thread

    def _insert(self, batch: OperationBatch, items: Sequence[_Save]) -> Results:
        ordered = sorted(items, key=lambda item: item.key)
        yield
        if self._free_count < len(ordered):
            self._free_count = self._count(batch)
            if self._free_count < len(ordered):
                self._dropped_keys.extend(_expired_keys(batch, self._idle, _MAX_EXPIRED_FOR_ROOM))
                self._free_count = self._count(batch)
            # The other replicas may add the same number in the meantime.
            free_count = self._free_count
            self._free_count = max(free_count // max(1, self.replicas), min(free_count, len(ordered)))
        admitted = ordered[: self._free_count]
        self._free_count -= len(admitted)
        rows = batch.connection.execute(
            _INSERT, ([item.key for item in admitted], [item.data for item in admitted])
        ).fetchall()
        stored_keys = {key for (key,) in rows}
        refused = {item.key for item in ordered[len(admitted) :]}
        full = f"too many sessions: {self._max_sessions} are kept"
        return [Overloaded(full) if item.key in refused else item.key in stored_keys for item in items]

    def _update(self, batch: OperationBatch, items: Sequence[_Save]) -> Results:
        cursor = batch.connection.execute(
            _UPDATE, ([item.key for item in items], [item.data for item in items], [item.generation for item in items])
        )
        yield
        stored_keys = {key for (key,) in cursor.fetchall()}
        return [item.key in stored_keys for item in items]

    def _load(self, batch: OperationBatch, items: Sequence[str]) -> Results:
        cursors = [
            batch.connection.execute(_LOAD, (self._idle / _RESOLUTION, key, self._idle), binary=True) for key in items
        ]
        yield
        return [cursor.fetchone() for cursor in cursors]

    def _delete(self, batch: OperationBatch, items: Sequence[str]) -> Results:
        cursor = batch.connection.execute(
            "DELETE FROM sessions WHERE id = ANY(%s) RETURNING id, used > now() - %s * interval '1 s'",
            (sorted(items), self._idle),
        )
        yield
        was_current: dict[Any, Any] = {row[0]: row[1] for row in cursor.fetchall()}
        # The deletion of an expired session counts as a deletion of no session.
        return [was_current.get(key, False) for key in items]

    def _expire(self, batch: OperationBatch, items: Sequence[int]) -> Results:
        yield
        return [_expired_keys(batch, self._idle, most) for most in items]

    def _count(self, batch: OperationBatch) -> int:
        """Return the number of sessions that may be added."""
        row = batch.connection.execute(
            "SELECT count(*) FROM (SELECT FROM sessions LIMIT %s) AS counted", (self._max_sessions,)
        ).fetchone()
        assert row is not None
        return self._max_sessions - int(str(row[0]))


def _use(batch: OperationBatch, items: Sequence[str]) -> Results:
    batch.connection.execute(
        "UPDATE sessions SET used = now()"
        " WHERE id IN (SELECT id FROM sessions WHERE id = ANY(%s) ORDER BY id FOR UPDATE)",
        (sorted(set(items)),),
    )
    yield
    return [None] * len(items)


def _expired_keys(batch: OperationBatch, idle: float, most: int) -> list[str]:
    return [str(key) for (key,) in batch.connection.execute(_EXPIRE, (idle, most)).fetchall()]
