"""Tasks in a SQLite file, shared by the processes of one machine.

The row of a running task has the id of the process that runs it. When that process has ended, another process queues
the task again, when it claims a task or checks for ended processes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from attrs import evolve

from mcptrio.abc import TaskQueue, TaskRecord, TaskState
from mcptrio.errors import Overloaded
from mcptrio.stores.common_tasks import MAX_TASK_PAGE, MAX_TASK_PAGE_BYTES, TaskChange, check_task_state
from mcptrio.stores.memory_tasks import MAX_TASKS_BYTES
from mcptrio.stores.process_locks import ProcessRegistry
from mcptrio.stores.settings import StoreBounds
from mcptrio.stores.sqlite_database import Database
from mcptrio.stores.wall_clock import WallClock

__all__ = ["SQLiteTasks", "release_tasks"]

# Expired tasks that are deleted in one transaction.
_MAX_EXPIRED: Final = 200
_RECORD: Final = "id, owner, tool, state, created, expires, fence, generation, data"


class SQLiteTasks:
    """Implements :class:`mcptrio.stores.common_tasks.TaskEngine`.

    Args:
        clock: The clock for creation and expiry.
        processes: Shows which processes still run.
    """

    def __init__(
        self, database: Database, clock: WallClock, processes: ProcessRegistry, *, bounds: StoreBounds
    ) -> None:
        self._database = database
        self._clock = clock
        self._processes = processes
        self._bounds = bounds

    async def create(self, record: TaskRecord, token: str, keep: float) -> TaskChange:
        create = partial(self._create, record=record, token=token, keep=keep, now=self._clock.now())
        change = await self._database.write(create)
        if isinstance(change, Overloaded):
            raise change
        return change

    async def load(self, id: str) -> TaskRecord | None:
        return await self._database.read(partial(_select, id=id, now=self._clock.now()))

    async def list(self, owner: str, after: str) -> list[TaskRecord]:
        return await self._database.read(partial(_page, owner=owner, after=after, now=self._clock.now()))

    async def save(self, record: TaskRecord, *, held: bool) -> TaskChange:
        change = await self._database.write(partial(self._save, record=record, held=held, now=self._clock.now()))
        if isinstance(change, ValueError):
            raise change
        return change

    async def claim(self, tools: Mapping[str, int], token: str) -> TaskChange:
        claim = partial(self._claim, tools=dict(tools), token=token, now=self._clock.now())
        return await self._database.write(claim)

    async def take_back(self, id: str, token: str) -> TaskChange:
        return await self._database.write(partial(_take_back, token=token))

    async def queues(self) -> Sequence[TaskQueue]:
        return await self._database.read(partial(_queues, now=self._clock.now()))

    async def expire(self) -> TaskChange:
        return await self._database.write(partial(_drop_expired, now=self._clock.now()))

    async def release_ended(self) -> Sequence[str]:
        """Queue the tasks of processes that have ended, and return their ids.

        Raises:
            StoreFailed: The file cannot be written.
        """
        holders = await self._database.read(_holders)
        if all(holder == self._processes.id for holder in holders):
            return []
        return await self._database.write(self._release_ended)

    # In a thread

    def _create(
        self, connection: sqlite3.Connection, *, record: TaskRecord, token: str, keep: float, now: float
    ) -> TaskChange | Overloaded:
        # Errors are returned, not raised: an exception would split the batch into one transaction per write.
        row = connection.execute("SELECT expires <= ? FROM tasks WHERE id = ?", (now, record.id)).fetchone()
        if row is not None and not row[0]:
            return TaskChange()
        change = TaskChange()
        if row is not None or self._is_full(connection):
            change = _drop_expired(connection, now=now, id=record.id)
            if self._is_full(connection):
                return Overloaded(f"too many tasks: {self._bounds.max_tasks}, or {MAX_TASKS_BYTES} bytes, are kept")
        limit = self._bounds.tasks_per_owner
        active = connection.execute(
            "SELECT count(*) FROM tasks WHERE owner = ? AND state != 'ended' AND expires > ?", (record.owner, now)
        ).fetchone()[0]
        if active >= limit:
            return Overloaded(f"too many tasks of this owner: {limit} have not ended")
        stored = evolve(record, created=now, expires=now + keep if record.expires is None else record.expires)
        connection.execute(
            f"INSERT INTO tasks ({_RECORD}, holder, token) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(stored.id, stored.owner, stored.tool, stored.state.value, stored.created, stored.expires),
                *(stored.fence, stored.generation, stored.data),
                *(self._holder(stored.state), token),
            ),
        )
        _add(connection, "tasks", 1)
        _add(connection, "task_bytes", len(stored.data))
        return evolve(change, record=stored)

    def _is_full(self, connection: sqlite3.Connection) -> bool:
        sums = dict(connection.execute("SELECT name, value FROM sums WHERE name IN ('tasks', 'task_bytes')").fetchall())
        return bool(sums["tasks"] >= self._bounds.max_tasks or sums["task_bytes"] >= MAX_TASKS_BYTES)

    def _save(
        self, connection: sqlite3.Connection, *, record: TaskRecord, held: bool, now: float
    ) -> TaskChange | ValueError:
        row = connection.execute(
            "SELECT owner, tool, state, created, fence, holder, length(data) FROM tasks"
            " WHERE id = ? AND generation = ? AND state != 'ended' AND expires > ?",
            (record.id, record.generation, now),
        ).fetchone()
        if row is None:
            return TaskChange()
        owner, tool, state, created, fence, holder, size = row
        if not held:
            try:
                check_task_state(TaskState(state), record.state)
            except ValueError as error:
                return error
        elif state != "running" or holder != self._processes.id or fence != record.fence:
            return TaskChange()
        stored = evolve(
            record,
            owner=owner,
            tool=tool,
            created=created,
            fence=fence,
            expires=created + self._bounds.task_timeout if record.expires is None else record.expires,
            generation=record.generation + 1,
        )
        connection.execute(
            "UPDATE tasks SET state = ?, data = ?, expires = ?, generation = ?, holder = ? WHERE id = ?",
            (
                *(stored.state.value, stored.data, stored.expires, stored.generation),
                # The holder stays: another process may save an answer to a task that it does not hold.
                holder if record.state is TaskState.RUNNING else "",
                stored.id,
            ),
        )
        _add(connection, "task_bytes", len(stored.data) - size)
        is_free = state == "running" and stored.state is not TaskState.RUNNING
        return TaskChange(record=stored, has_freed=is_free and _has_queued(connection, tool))

    def _claim(self, connection: sqlite3.Connection, *, tools: Mapping[str, int], token: str, now: float) -> TaskChange:
        released = self._release_ended(connection)
        due: list[tuple[int, str]] = []
        for tool, limit in tools.items():
            if limit and _count(connection, tool, now) >= limit:
                continue
            due += connection.execute(
                "SELECT number, id FROM tasks WHERE state = 'queued' AND tool = ? AND expires > ?"
                " ORDER BY number LIMIT 1",
                (tool, now),
            ).fetchall()
        if not due:
            return TaskChange(others=released, has_freed=bool(released))
        number, id = min(due)
        connection.execute(
            "UPDATE tasks SET state = 'running', fence = fence + 1, generation = generation + 1, holder = ?, token = ?"
            " WHERE number = ?",
            (self._processes.id, token, number),
        )
        return TaskChange(record=_select(connection, id=id, now=now), others=released, has_freed=len(released) > 1)

    def _release_ended(self, connection: sqlite3.Connection) -> Sequence[str]:
        ended = [holder for holder in _holders(connection) if not self._processes.is_alive(holder)]
        return [id for holder in ended for id in release_tasks(connection, holder)]

    def _holder(self, state: TaskState) -> str:
        return self._processes.id if state is TaskState.RUNNING else ""


def release_tasks(connection: sqlite3.Connection, holder: str) -> list[str]:
    """Queue the tasks of a process, and return their ids. Called in a thread."""
    rows = connection.execute(
        "UPDATE tasks SET state = 'queued', holder = '', generation = generation + 1"
        " WHERE state = 'running' AND holder = ? RETURNING id",
        (holder,),
    ).fetchall()
    return [id for (id,) in rows]


def _select(connection: sqlite3.Connection, *, id: str, now: float) -> TaskRecord | None:
    row = connection.execute(f"SELECT {_RECORD} FROM tasks WHERE id = ? AND expires > ?", (id, now)).fetchone()
    return _record(row) if row is not None else None


def _page(connection: sqlite3.Connection, *, owner: str, after: str, now: float) -> list[TaskRecord]:
    first = 0
    if after:
        row = connection.execute(
            "SELECT number FROM tasks WHERE id = ? AND owner = ? AND expires > ?", (after, owner, now)
        ).fetchone()
        if row is None:
            return []
        first = row[0]
    rows = connection.execute(
        f"SELECT {_RECORD} FROM tasks WHERE owner = ? AND number > ? AND expires > ? ORDER BY number LIMIT ?",
        (owner, first, now, MAX_TASK_PAGE),
    )
    page: list[TaskRecord] = []
    size = 0
    for row in rows:
        size += len(row[-1])
        if page and size > MAX_TASK_PAGE_BYTES:
            break
        page.append(_record(row))
    return page


def _record(row: tuple[Any, ...]) -> TaskRecord:
    id, owner, tool, state, created, expires, fence, generation, data = row
    return TaskRecord(
        id=id,
        owner=owner,
        tool=tool,
        state=TaskState(state),
        data=data,
        created=created,
        expires=expires,
        fence=fence,
        generation=generation,
    )


def _queues(connection: sqlite3.Connection, *, now: float) -> list[TaskQueue]:
    rows = connection.execute(
        "SELECT tool, sum(state = 'queued'), sum(state = 'running'),"
        " coalesce(?1 - min(CASE state WHEN 'queued' THEN created END), 0.0)"
        " FROM tasks WHERE state != 'ended' AND expires > ?1 GROUP BY tool ORDER BY tool",
        (now,),
    )
    return [TaskQueue(tool, queued, running, max(0.0, oldest)) for tool, queued, running, oldest in rows]


def _holders(connection: sqlite3.Connection) -> list[str]:
    return [holder for (holder,) in connection.execute("SELECT DISTINCT holder FROM tasks WHERE state = 'running'")]


def _count(connection: sqlite3.Connection, tool: str, now: float) -> int:
    return int(
        connection.execute(
            "SELECT count(*) FROM tasks WHERE state = 'running' AND tool = ? AND expires > ?", (tool, now)
        ).fetchone()[0]
    )


def _has_queued(connection: sqlite3.Connection, tool: str) -> bool:
    row = connection.execute("SELECT 1 FROM tasks WHERE state = 'queued' AND tool = ? LIMIT 1", (tool,)).fetchone()
    return row is not None


def _take_back(connection: sqlite3.Connection, *, token: str) -> TaskChange:
    created = connection.execute(
        "DELETE FROM tasks WHERE token = ? AND generation = 1 RETURNING id, state, length(data)", (token,)
    ).fetchall()
    if created:
        _subtract(connection, [size for _, _, size in created])
        return TaskChange(
            others=[id for id, _, _ in created], has_freed=any(state == "running" for _, state, _ in created)
        )
    claimed = connection.execute(
        "UPDATE tasks SET state = 'queued', holder = '', generation = generation + 1"
        " WHERE token = ? AND state = 'running' RETURNING id",
        (token,),
    ).fetchall()
    return TaskChange(others=[id for (id,) in claimed], has_freed=bool(claimed))


def _drop_expired(connection: sqlite3.Connection, *, now: float, id: str = "") -> TaskChange:
    """Delete some expired tasks, and one with this id if it has expired."""
    rows = connection.execute(
        "DELETE FROM tasks WHERE expires <= ?1 AND"
        " (id = ?2 OR number IN (SELECT number FROM tasks WHERE expires <= ?1 ORDER BY expires LIMIT ?3))"
        " RETURNING id, state, length(data)",
        (now, id, _MAX_EXPIRED),
    ).fetchall()
    _subtract(connection, [size for _, _, size in rows])
    return TaskChange(others=[id for id, _, _ in rows], has_freed=any(state == "running" for _, state, _ in rows))


def _subtract(connection: sqlite3.Connection, sizes: Sequence[int]) -> None:
    _add(connection, "tasks", -len(sizes))
    _add(connection, "task_bytes", -sum(sizes))


def _add(connection: sqlite3.Connection, name: str, value: int) -> None:
    if value:
        connection.execute("UPDATE sums SET value = value + ? WHERE name = ?", (value, name))
