"""Tasks in memory. They end with the process.

:func:`mcptrio.stores.memory.memory_stores` makes the store. None of its methods waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

import trio
from attrs import define, evolve

from mcptrio.abc import TaskQueue, TaskRecord, TaskState
from mcptrio.errors import Overloaded
from mcptrio.stores.common_tasks import MAX_TASK_PAGE, MAX_TASK_PAGE_BYTES, TaskChange, check_task_state
from mcptrio.stores.settings import StoreBounds
from mcptrio.stores.wall_clock import WallClock

__all__ = ["MAX_TASKS_BYTES", "MemoryTasks"]

MAX_TASKS_BYTES: Final = 256 * 1024 * 1024
"""Bytes of the data of all tasks at which no new task is accepted."""


@define(eq=False)
class _Entry:
    number: int
    record: TaskRecord
    expires: float


class MemoryTasks:
    """Tasks in a dict, in the order of their creation."""

    def __init__(self, bounds: StoreBounds) -> None:
        self._bounds = bounds
        self._clock: WallClock | None = None
        self._tasks: dict[str, _Entry] = {}
        # Heaps of the numbers and ids of the queued tasks of each tool. Entries of tasks that are no longer queued are
        # removed later.
        self._queues: dict[str, list[tuple[int, str]]] = {}
        self._queued: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        # The number of tasks of each owner that have not ended.
        self._active: Counter[str] = Counter()
        self._bytes = 0
        self._created = 0
        # No task expires before this.
        self._next_expiry = float("inf")
        # Deleted tasks that have not been reported yet.
        self._dropped: list[str] = []
        self._has_freed = False

    async def create(self, record: TaskRecord, token: str, keep: float) -> TaskChange:
        now = self._drop_expired()
        if record.id in self._tasks:
            return TaskChange()
        self._admit(record.owner)
        self._created += 1
        expires = now + keep if record.expires is None else record.expires
        stored = evolve(record, created=now, expires=expires)
        self._tasks[record.id] = entry = _Entry(self._created, stored, expires)
        self._count(entry, 1)
        return self._with_dropped(stored)

    async def load(self, id: str) -> TaskRecord | None:
        self._drop_expired()
        entry = self._tasks.get(id)
        return entry.record if entry is not None else None

    async def list(self, owner: str, after: str) -> list[TaskRecord]:
        self._drop_expired()
        start = self._tasks.get(after)
        if after and (start is None or start.record.owner != owner):
            return []
        first, size = start.number if start is not None else 0, 0
        page: list[TaskRecord] = []
        for entry in self._tasks.values():
            if entry.record.owner != owner or entry.number <= first:
                continue
            size += len(entry.record.data)
            if page and size > MAX_TASK_PAGE_BYTES:
                break
            page.append(entry.record)
            if len(page) == MAX_TASK_PAGE:
                break
        return page

    async def save(self, record: TaskRecord, *, held: bool) -> TaskChange:
        self._drop_expired()
        entry = self._tasks.get(record.id)
        if entry is None:
            return TaskChange()
        stored = entry.record
        if stored.state is TaskState.ENDED or stored.generation != record.generation:
            return TaskChange()
        if not held:
            check_task_state(stored.state, record.state)
        elif stored.state is not TaskState.RUNNING or stored.fence != record.fence:
            return TaskChange()
        self._put(entry, state=record.state, data=record.data, expires=record.expires)
        is_free = stored.state is TaskState.RUNNING is not record.state
        return TaskChange(record=entry.record, has_freed=is_free and self._queued[stored.tool] > 0)

    async def claim(self, tools: Mapping[str, int], token: str) -> TaskChange:
        self._drop_expired()
        open_tools = [tool for tool, limit in tools.items() if not limit or self._running[tool] < limit]
        due = [entry for tool in open_tools if (entry := self._oldest(tool)) is not None]
        if not due:
            return TaskChange()
        entry = min(due, key=lambda each: each.number)
        self._put(entry, state=TaskState.RUNNING, data=entry.record.data, expires=entry.expires, claims=1)
        return TaskChange(record=entry.record)

    async def take_back(self, id: str, token: str) -> TaskChange:
        # Every change is acknowledged: these methods neither wait nor fail after a change.
        return TaskChange()

    async def queues(self) -> Sequence[TaskQueue]:
        now = self._drop_expired()
        queues = []
        for tool in sorted({*self._queued, *self._running}):
            oldest = self._oldest(tool)
            age = max(0.0, now - oldest.record.created) if oldest is not None else 0.0
            queues.append(TaskQueue(tool, self._queued[tool], self._running[tool], age))
        return queues

    async def expire(self) -> TaskChange:
        self._drop_expired()
        return self._with_dropped(None)

    def _now(self) -> float:
        if self._clock is None:
            # Created on first use, because a program may create the stores before it runs Trio.
            self._clock = WallClock(monotonic=trio.current_time)
            self._clock.set_epoch()
        return self._clock.now()

    def _admit(self, owner: str) -> None:
        bounds = self._bounds
        if len(self._tasks) >= bounds.max_tasks:
            raise Overloaded(f"too many tasks: {bounds.max_tasks} are kept")
        if self._bytes >= MAX_TASKS_BYTES:
            raise Overloaded(f"too many tasks: {MAX_TASKS_BYTES} bytes are kept")
        if self._active[owner] >= bounds.tasks_per_owner:
            raise Overloaded(f"too many tasks of this owner: {bounds.tasks_per_owner} have not ended")

    def _oldest(self, tool: str) -> _Entry | None:
        """Return the queued task of a tool that was created first."""
        queue = self._queues.get(tool, [])
        while queue:
            number, id = queue[0]
            entry = self._tasks.get(id)
            if entry is not None and entry.number == number and entry.record.state is TaskState.QUEUED:
                return entry
            heappop(queue)
        self._queues.pop(tool, None)
        return None

    def _put(self, entry: _Entry, *, state: TaskState, data: bytes, expires: float | None, claims: int = 0) -> None:
        self._count(entry, -1)
        stored = entry.record
        entry.expires = stored.created + self._bounds.task_timeout if expires is None else expires
        entry.record = evolve(
            stored,
            state=state,
            data=data,
            expires=entry.expires,
            fence=stored.fence + claims,
            generation=stored.generation + 1,
        )
        self._count(entry, 1)

    def _count(self, entry: _Entry, by: int) -> None:
        """Add a task to the totals (``by`` is 1), or subtract it (-1)."""
        record = entry.record
        self._bytes += by * len(record.data)
        if by > 0:
            self._next_expiry = min(self._next_expiry, entry.expires)
        if record.state is TaskState.ENDED:
            return
        tools = self._running if record.state is TaskState.RUNNING else self._queued
        for sums, key in ((tools, record.tool), (self._active, record.owner)):
            sums[key] += by
            if not sums[key]:
                del sums[key]
        if by > 0 and record.state is TaskState.QUEUED:
            self._enqueue(entry)

    def _enqueue(self, entry: _Entry) -> None:
        tool = entry.record.tool
        queue = self._queues.setdefault(tool, [])
        heappush(queue, (entry.number, entry.record.id))
        if len(queue) > 2 * self._queued[tool] + 64:
            # Each change to a queued task has added another entry for it.
            queue[:] = {*queue}
            heapify(queue)

    def _drop_expired(self) -> float:
        """Delete expired tasks, and return the time."""
        now = self._now()
        if self._next_expiry <= now:
            for entry in [each for each in self._tasks.values() if each.expires <= now]:
                self._count(entry, -1)
                del self._tasks[entry.record.id]
                self._dropped.append(entry.record.id)
                self._has_freed |= entry.record.state is TaskState.RUNNING
            self._next_expiry = min((each.expires for each in self._tasks.values()), default=float("inf"))
        return now

    def _with_dropped(self, record: TaskRecord | None) -> TaskChange:
        dropped, self._dropped = self._dropped, []
        has_freed, self._has_freed = self._has_freed, False
        return TaskChange(record=record, has_freed=has_freed, others=dropped)
