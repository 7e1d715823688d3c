"""Tasks: the steps of :class:`mcptrio.stores.TaskEngine`. A replica holds a task as long as it has a lease.

Claims take an advisory lock, so the claims of all replicas are sequential, and the number of running tasks of a tool is
exact. Concurrent creations of several replicas may exceed a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from mcptrio.abc import TaskQueue, TaskRecord, TaskState
from mcptrio.errors import Overloaded
from mcptrio.stores import MAX_TASK_PAGE, MAX_TASK_PAGE_BYTES, StoreBounds, TaskChange, check_task_state
from mcptrio_store_postgres.database import PostgresDatabase
from mcptrio_store_postgres.failures import EngineFull
from mcptrio_store_postgres.keys import key_of
from mcptrio_store_postgres.operations import DatabaseOperation, OperationBatch, Results

__all__ = ["PostgresTasks"]

# Expired tasks that are deleted in one transaction.
_MAX_EXPIRED: Final = 500
# Attempts at a claim whose task another transaction has just changed.
_CLAIM_ATTEMPTS: Final = 10

_NOW: Final = "extract(epoch FROM now())::float8"
_RECORD: Final = "id, owner, tool, state, created, expires, fence, generation, data"

_LOAD: Final = f"SELECT {_RECORD} FROM tasks WHERE key = %s AND expires > {_NOW}"
_PAGE: Final = f"""
SELECT {_RECORD} FROM (
    SELECT *, row_number() OVER w AS nth, sum(octet_length(data)) OVER w AS size FROM (
        SELECT * FROM tasks
        WHERE owner = %s AND expires > {_NOW} AND (%s = '' OR number > (
            SELECT number FROM tasks WHERE key = %s AND owner = %s AND expires > {_NOW}))
        ORDER BY number LIMIT %s
    ) AS page WINDOW w AS (ORDER BY number)
) AS sized WHERE nth = 1 OR size <= %s ORDER BY number
"""
_QUEUES: Final = f"""
SELECT tool, count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'running'),
    coalesce(greatest(0, {_NOW} - min(created) FILTER (WHERE state = 'queued')), 0)::float8
FROM tasks WHERE state <> 'ended' AND expires > {_NOW} GROUP BY tool
"""

_COUNT: Final = "SELECT count(*) FROM (SELECT FROM tasks LIMIT %s) AS counted"
_COUNT_ACTIVE: Final = f"""
SELECT owner, count(*) FROM tasks WHERE owner = ANY(%s) AND state <> 'ended' AND expires > {_NOW} GROUP BY owner
"""
_EXPIRE: Final = f"""
DELETE FROM tasks WHERE number IN (
    SELECT number FROM tasks WHERE expires <= {_NOW} ORDER BY expires LIMIT %s FOR UPDATE SKIP LOCKED)
RETURNING id, state
"""
_EXPIRE_KEYS: Final = f"DELETE FROM tasks WHERE key = ANY(%s) AND expires <= {_NOW} RETURNING id, state"
_CREATE: Final = f"""
INSERT INTO tasks (key, id, owner, tool, state, created, expires, fence, generation, holder, token, data)
SELECT key, id, owner, tool, state, {_NOW}, coalesce(expires, {_NOW} + keep), fence, 1,
    CASE WHEN state = 'running' THEN %(replica)s END, token, data
FROM unnest(%(keys)b::text[], %(ids)b::text[], %(owners)b::text[], %(tools)b::text[], %(states)b::text[],
            %(expires)b::float8[], %(keeps)b::float8[], %(fences)b::bigint[], %(tokens)b::text[], %(data)b::bytea[])
    WITH ORDINALITY AS w (key, id, owner, tool, state, expires, keep, fence, token, data, nth) ORDER BY nth
ON CONFLICT (key) DO NOTHING RETURNING key, created, expires
"""

_SAVE: Final = f"""
UPDATE tasks AS t
SET state = w.state, data = w.data, expires = coalesce(w.expires, t.created + %(timeout)s),
    generation = t.generation + 1, holder = CASE WHEN w.state = 'running' THEN t.holder END
FROM (
    SELECT t.key, t.state AS before, w.state, w.expires, w.generation, w.fence, w.held, w.data FROM tasks AS t
    JOIN unnest(%(keys)b::text[], %(states)b::text[], %(expires)b::float8[], %(generations)b::bigint[],
                %(fences)b::bigint[], %(held)b::bool[], %(data)b::bytea[])
        AS w (key, state, expires, generation, fence, held, data) USING (key)
    ORDER BY key FOR UPDATE OF t
) AS w
WHERE t.key = w.key AND t.generation = w.generation AND t.state <> 'ended' AND t.expires > {_NOW}
    AND CASE WHEN w.held THEN t.state = 'running' AND t.holder = %(replica)s AND t.fence = w.fence
        ELSE t.state = w.state OR (t.state = 'queued' AND w.state = 'ended') END
RETURNING t.key, t.owner, t.tool, t.created, t.expires, t.fence, w.before = 'running' AND w.state <> 'running'
    AND (w.state = 'queued' OR EXISTS (SELECT FROM tasks AS q WHERE q.tool = t.tool AND q.state = 'queued'))
"""
_STATES: Final = f"""
SELECT key, generation, state FROM tasks WHERE key = ANY(%s) AND state <> 'ended' AND expires > {_NOW}
"""

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_OPEN: Final = f"""
WITH open AS (
    SELECT tool FROM unnest(%s::text[], %s::bigint[]) AS w (tool, most)
    WHERE most = 0 OR most > (
        SELECT count(*) FROM tasks AS t WHERE t.tool = w.tool AND t.state = 'running' AND t.expires > {_NOW})
), due AS (
    SELECT number FROM open CROSS JOIN LATERAL (
        SELECT number FROM tasks AS t WHERE t.tool = open.tool AND t.state = 'queued' AND t.expires > {_NOW}
        ORDER BY number LIMIT 1
    ) AS oldest ORDER BY number LIMIT 1
)
"""
# If another replica is saving this task, the statement waits, and then finds that the task is no longer queued.
_CLAIM: Final = f"""
{_OPEN}
UPDATE tasks SET state = 'running', fence = fence + 1, generation = generation + 1, holder = %s, token = %s
WHERE number = (SELECT number FROM due) AND state = 'queued' RETURNING {_RECORD}
"""
_CLAIMABLE: Final = f"{_OPEN} SELECT FROM due"

# Compares the generation: the task may have been claimed in the meantime by a replica whose lease is not visible here.
_RELEASE: Final = """
WITH orphans AS MATERIALIZED (
    SELECT number, generation FROM tasks AS t
    WHERE state = 'running' AND NOT EXISTS (SELECT FROM leases WHERE replica = t.holder) ORDER BY number
)
UPDATE tasks AS t SET state = 'queued', holder = NULL, generation = t.generation + 1
FROM orphans AS o WHERE t.number = o.number AND t.generation = o.generation AND t.state = 'running' RETURNING t.id
"""
_DELETE_CREATED: Final = "DELETE FROM tasks WHERE token = %s AND generation = 1 RETURNING id, state"
_RELEASE_CLAIMED: Final = """
UPDATE tasks SET state = 'queued', holder = NULL, generation = generation + 1
WHERE token = %s AND state = 'running' RETURNING id, 'running'
"""


@frozen
class _New:
    record: TaskRecord
    token: str
    keep: float


@frozen
class _Save:
    record: TaskRecord
    held: bool


class PostgresTasks:
    """Implements :class:`mcptrio.stores.TaskEngine`.

    Args:
        replica: The id of this process.
    """

    def __init__(self, database: PostgresDatabase, bounds: StoreBounds, *, replica: str) -> None:
        self._database = database
        self._bounds = bounds
        self._replica = replica
        self._lock_name = f"mcptrio:{database.address.schema}:tasks"

    async def create(self, record: TaskRecord, token: str, keep: float) -> TaskChange:
        key, is_running = key_of(record.id), record.state is TaskState.RUNNING
        work = DatabaseOperation(self._create, _New(record, token, keep), key, needs_lease=is_running)
        try:
            change: TaskChange = await self._database.write(work, len(record.data))
        except EngineFull as error:
            raise Overloaded("too many tasks: the store is full") from error
        return change

    async def load(self, id: str) -> TaskRecord | None:
        rows = await self._read(_LOAD, key_of(id))
        return _record(rows[0]) if rows else None

    async def list(self, owner: str, after: str) -> list[TaskRecord]:
        key = key_of(after) if after else ""
        rows = await self._read(_PAGE, owner, key, key, owner, MAX_TASK_PAGE, MAX_TASK_PAGE_BYTES)
        return [_record(row) for row in rows]

    async def save(self, record: TaskRecord, *, held: bool) -> TaskChange:
        work = DatabaseOperation(self._save, _Save(record, held), key_of(record.id), needs_lease=held)
        change: TaskChange = await self._database.write(work, len(record.data))
        return change

    async def claim(self, tools: Mapping[str, int], token: str) -> TaskChange:
        work = DatabaseOperation(self._claim, (dict(tools), token), needs_lease=True)
        record, has_more = None, bool(tools)
        for _ in range(_CLAIM_ATTEMPTS):
            if record is not None or not has_more:
                break
            record, has_more = await self._database.write(work)
        return TaskChange(record=record)

    async def take_back(self, id: str, token: str) -> TaskChange:
        change: TaskChange = await self._database.write(DatabaseOperation(_take_back, token))
        return change

    async def queues(self) -> Sequence[TaskQueue]:
        # Sorted here, because the order in the database depends on its locale.
        return sorted((TaskQueue(*row) for row in await self._read(_QUEUES)), key=lambda queue: queue.tool)

    async def expire(self) -> TaskChange:
        change: TaskChange = await self._database.write(DatabaseOperation(_expire, None))
        return change

    async def release_ended(self) -> Sequence[str]:
        """Queue the tasks of replicas without a lease, and return their ids.

        Raises:
            StoreFailed: The engine failed.
        """
        ids: Sequence[str] = await self._database.write(DatabaseOperation(_release, None))
        return ids

    async def _read(self, statement: str, *parameters: Any) -> Sequence[tuple[Any, ...]]:
        rows: Sequence[tuple[Any, ...]] = await self._database.read(DatabaseOperation(_select, (statement, parameters)))
        return rows

    # In a thread

    def _create(self, batch: OperationBatch, items: Sequence[_New]) -> Results:
        yield
        keys = [key_of(item.record.id) for item in items]
        dropped = _rows(batch, _EXPIRE_KEYS, keys)
        free_places = self._left(batch)
        if free_places < len(items):
            dropped += _rows(batch, _EXPIRE, _MAX_EXPIRED)
            free_places = self._left(batch)
        active = dict(_rows(batch, _COUNT_ACTIVE, sorted({item.record.owner for item in items})))
        results: list[TaskChange | Overloaded] = []
        admitted: list[_New] = []
        for item in items:
            owner = item.record.owner
            if len(admitted) >= free_places:
                results.append(Overloaded(f"too many tasks: {self._bounds.max_tasks} are kept"))
            elif active.get(owner, 0) >= self._bounds.tasks_per_owner:
                most = self._bounds.tasks_per_owner
                results.append(Overloaded(f"too many tasks of this owner: {most} have not ended"))
            else:
                active[owner] = active.get(owner, 0) + 1
                admitted.append(item)
                results.append(TaskChange())
        stored = self._insert(batch, admitted) if admitted else {}
        for at, item in enumerate(items):
            if isinstance(results[at], TaskChange) and keys[at] in stored:
                created, expires = stored[keys[at]]
                results[at] = TaskChange(record=evolve(item.record, created=created, expires=expires))
        if dropped and isinstance(results[0], TaskChange):
            results[0] = evolve(_dropped_change(dropped), record=results[0].record)
        return results

    def _left(self, batch: OperationBatch) -> int:
        ((count,),) = _rows(batch, _COUNT, self._bounds.max_tasks)
        return self._bounds.max_tasks - int(count)

    def _insert(self, batch: OperationBatch, items: Sequence[_New]) -> dict[str, tuple[float, float]]:
        records = [item.record for item in items]
        parameters = {
            "replica": self._replica,
            "keys": [key_of(record.id) for record in records],
            "ids": [record.id for record in records],
            "owners": [record.owner for record in records],
            "tools": [record.tool for record in records],
            "states": [record.state.value for record in records],
            "expires": [_float(record.expires) for record in records],
            "keeps": [float(item.keep) for item in items],
            "fences": [record.fence for record in records],
            "tokens": [item.token for item in items],
            "data": [record.data for record in records],
        }
        rows = batch.connection.execute(_CREATE.encode(), parameters, binary=True).fetchall()
        return {str(key): (created, expires) for key, created, expires in rows}  # type: ignore[misc]

    def _save(self, batch: OperationBatch, items: Sequence[_Save]) -> Results:
        sorted_items = sorted(items, key=lambda item: key_of(item.record.id))
        parameters = {
            "timeout": self._bounds.task_timeout,
            "replica": self._replica,
            "keys": [key_of(item.record.id) for item in sorted_items],
            "states": [item.record.state.value for item in sorted_items],
            "expires": [_float(item.record.expires) for item in sorted_items],
            "generations": [item.record.generation for item in sorted_items],
            "fences": [item.record.fence for item in sorted_items],
            "held": [item.held for item in sorted_items],
            "data": [item.record.data for item in sorted_items],
        }
        cursor = batch.connection.execute(_SAVE.encode(), parameters, binary=True)
        yield
        rows: dict[Any, tuple[Any, ...]] = {row[0]: row[1:] for row in cursor.fetchall()}
        refused = [key_of(item.record.id) for item in items if not item.held and key_of(item.record.id) not in rows]
        states = {row[0]: row[1:] for row in _rows(batch, _STATES, sorted(refused))} if refused else {}
        return [
            _saved_change(item.record, rows[key])
            if (key := key_of(item.record.id)) in rows
            else _refused_change(item, states.get(key))
            for item in items
        ]

    def _claim(self, batch: OperationBatch, items: Sequence[tuple[dict[str, int], str]]) -> Results:
        # All statements before the yield, so that no transaction waits for this lock while it holds rows that the claim
        # needs.
        batch.connection.execute(_LOCK, (self._lock_name,))
        cursors = []
        for tools, token in items:
            tool_limits = [*tools], [*tools.values()]
            claim = batch.connection.execute(_CLAIM.encode(), (*tool_limits, self._replica, token), binary=True)
            cursors.append((claim, batch.connection.execute(_CLAIMABLE.encode(), tool_limits)))
        yield
        claims = []
        for claim, claimable in cursors:
            row = claim.fetchone()
            claims.append((_record(row) if row is not None else None, claimable.fetchone() is not None))
        return claims


def _select(batch: OperationBatch, items: Sequence[tuple[str, tuple[Any, ...]]]) -> Results:
    cursors = [batch.connection.execute(statement.encode(), parameters, binary=True) for statement, parameters in items]
    yield
    return [cursor.fetchall() for cursor in cursors]


def _expire(batch: OperationBatch, items: Sequence[None]) -> Results:
    yield
    return [_dropped_change(_rows(batch, _EXPIRE, _MAX_EXPIRED)) for _ in items]


def _release(batch: OperationBatch, items: Sequence[None]) -> Results:
    cursor = batch.connection.execute(_RELEASE)
    yield
    ids = [str(id) for (id,) in cursor.fetchall()]
    return [ids, *[[] for _ in items[1:]]]


def _take_back(batch: OperationBatch, items: Sequence[str]) -> Results:
    cursors = [
        (batch.connection.execute(_DELETE_CREATED, (token,)), batch.connection.execute(_RELEASE_CLAIMED, (token,)))
        for token in items
    ]
    yield
    return [_dropped_change([*deleted.fetchall(), *released.fetchall()]) for deleted, released in cursors]


def _rows(batch: OperationBatch, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    return batch.connection.execute(statement.encode(), parameters).fetchall()


def _dropped_change(rows: Sequence[tuple[Any, ...]]) -> TaskChange:
    return TaskChange(others=[str(id) for id, _ in rows], has_freed=any(state == "running" for _, state in rows))


def _record(row: tuple[Any, ...]) -> TaskRecord:
    id, owner, tool, state, created, expires, fence, generation, data = row
    return TaskRecord(
        id=id,
        owner=owner,
        tool=tool,
        state=TaskState(state),
        data=bytes(data),
        created=created,
        expires=expires,
        fence=fence,
        generation=generation,
    )


def _saved_change(record: TaskRecord, row: tuple[Any, ...]) -> TaskChange:
    owner, tool, created, expires, fence, has_freed = row
    stored = evolve(
        record,
        owner=owner,
        tool=tool,
        created=created,
        expires=expires,
        fence=fence,
        generation=record.generation + 1,
    )
    return TaskChange(record=stored, has_freed=has_freed)


def _refused_change(item: _Save, row: tuple[Any, ...] | None) -> TaskChange | ValueError:
    if row is not None and row[0] == item.record.generation:
        try:
            check_task_state(TaskState(row[1]), item.record.state)
        except ValueError as error:
            return error
    return TaskChange()


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)
