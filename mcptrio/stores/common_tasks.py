"""The part of a task store that all engines share: checks, messages, and taking back unacknowledged changes.

Each engine implements :class:`TaskEngine`, whose methods are single atomic steps.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import trio
from attrs import evolve, frozen

from mcptrio.abc import (
    TASK_CHANGED,
    TASK_QUEUED,
    TASKS_TOPIC,
    Bus,
    TaskQueue,
    TaskRecord,
    TaskState,
    task_topic,
)
from mcptrio.errors import Overloaded, StoreFailed
from mcptrio.stores.settings import StoreBounds

__all__ = [
    "MAX_TASK_PAGE",
    "MAX_TASK_PAGE_BYTES",
    "CommonTaskStore",
    "TaskChange",
    "TaskEngine",
    "check_task_state",
]

MAX_TASK_PAGE: Final = 100
"""Tasks of one page of a list."""
MAX_TASK_PAGE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the data of one page, but always at least one task."""
# Unacknowledged changes that are taken back. Tasks of further ones stay until this process ends or they expire.
_MAX_UNACKNOWLEDGED: Final = 10_000
# Seconds after which a change is taken back once more: a stalled network may deliver it after the first time.
_LATE_SECONDS: Final = 30.0


@frozen(kw_only=True)
class TaskChange:
    """The changes that a step has made.

    Args:
        record: The task; ``None`` if the step was refused.
        has_freed: True if another task of the tool may be claimed now.
        others: The ids of other tasks that were deleted or queued again.
    """

    record: TaskRecord | None = None
    has_freed: bool = False
    others: Sequence[str] = ()


class TaskEngine(Protocol):
    """The steps of an engine, as :class:`mcptrio.abc.TaskStore` describes them. Each is atomic over all processes.

    The tokens name attempts to create or claim a task. A method that fails may have had its effect.
    """

    async def create(self, record: TaskRecord, token: str, keep: float) -> TaskChange:
        """As ``TaskStore.create``; ``keep`` is for a record without an expiry."""
        ...

    async def load(self, id: str) -> TaskRecord | None: ...
    async def list(self, owner: str, after: str) -> list[TaskRecord]: ...

    async def save(self, record: TaskRecord, *, held: bool) -> TaskChange:
        """As ``TaskStore.save``. Calls :func:`check_task_state` or does the same."""
        ...

    async def claim(self, tools: Mapping[str, int], token: str) -> TaskChange: ...

    async def take_back(self, id: str, token: str) -> TaskChange:
        """Delete a task that was created with this token, or queue the one that was claimed with it.

        Args:
            id: The task that was to be created; empty after a claim.
            token: Names the attempt to create or claim it.
        """
        ...

    async def queues(self) -> Sequence[TaskQueue]: ...

    async def expire(self) -> TaskChange:
        """Delete some expired tasks, and return their ids in ``others``; an empty list if none is left."""
        ...


class CommonTaskStore:
    """The port :class:`mcptrio.abc.TaskStore` over the steps of an engine.

    Args:
        engine: The steps that the engine makes atomically.
        bus: Announces changes; ``None`` if there is one process without a bus.
    """

    def __init__(self, engine: TaskEngine, bounds: StoreBounds, bus: Bus | None) -> None:
        self._engine = engine
        self._bounds = bounds
        self._bus = bus
        # Tokens of creations and claims that may have succeeded although their callers got no result. Each has the id
        # of the created task and, once the change was taken back, the Trio clock time at which that is repeated.
        self._unacknowledged: dict[str, tuple[str, float | None]] = {}

    async def create(self, record: TaskRecord, *, keep: float | None = None) -> TaskRecord:
        if record.state is TaskState.ENDED:
            raise ValueError("state: expected QUEUED or RUNNING for a new task, got ENDED")
        self._check_size(record)
        fence = int(record.state is TaskState.RUNNING)
        token = secrets.token_hex(8)
        is_acknowledged = False
        try:
            keep_seconds = self._bounds.task_timeout if keep is None else keep
            change = await self._engine.create(evolve(record, fence=fence, generation=1), token, keep_seconds)
            is_acknowledged = True
        except Overloaded:
            is_acknowledged = True
            raise
        finally:
            if not is_acknowledged:
                self._note_unacknowledged(token, record.id)
        self._announce(change)
        if change.record is None:
            raise StoreFailed(f"task {record.id[:6]}…: expected a new id, got one that is in use")
        if record.state is TaskState.QUEUED:
            self.announce_queued()
        return change.record

    async def load(self, id: str) -> TaskRecord | None:
        return await self._engine.load(id)

    async def list(self, owner: str, after: str = "") -> list[TaskRecord]:
        return await self._engine.list(owner, after)

    async def save(self, record: TaskRecord, *, held: bool = False) -> TaskRecord | None:
        self._check_size(record)
        is_acknowledged = False
        try:
            change = await self._engine.save(record, held=held)
            is_acknowledged = True
        except ValueError:
            is_acknowledged = True
            raise
        finally:
            if not is_acknowledged:
                # The record may have been saved. Followers read the store.
                self._publish(task_topic(record.id), TASK_CHANGED)
                self.announce_queued()
        self._announce(change)
        return change.record

    async def claim(self, tools: Mapping[str, int]) -> TaskRecord | None:
        token = secrets.token_hex(8)
        is_acknowledged = False
        try:
            change = await self._engine.claim(tools, token)
            is_acknowledged = True
        finally:
            if not is_acknowledged:
                self._note_unacknowledged(token, "")
        self._announce(change)
        return change.record

    async def queues(self) -> Sequence[TaskQueue]:
        return await self._engine.queues()

    async def expire(self) -> int:
        count = 0
        while (change := await self._engine.expire()).others:
            self._announce(change)
            count += len(change.others)
        return count

    # For the engine

    def announce_queued(self) -> None:
        """Tell all processes that there may be a task to claim."""
        self._publish(TASKS_TOPIC, TASK_QUEUED)

    def announce_released(self, ids: Sequence[str]) -> None:
        """Tell all processes about tasks that have been queued because their holder has ended."""
        for id in ids:
            self._publish(task_topic(id), TASK_CHANGED)
        if ids:
            self.announce_queued()

    async def take_back_unacknowledged(self) -> None:
        """Take back creations and claims whose callers were cancelled or got an error. The engine calls it regularly.

        Raises:
            StoreFailed: The engine failed; the rest is taken back later.
        """
        for token, (id, last) in list(self._unacknowledged.items()):
            if last is not None and trio.current_time() < last:
                continue
            self._announce(await self._engine.take_back(id, token))
            if last is None:
                self._unacknowledged[token] = id, trio.current_time() + _LATE_SECONDS
            else:
                self._unacknowledged.pop(token, None)

    def _check_size(self, record: TaskRecord) -> None:
        if len(record.data) > self._bounds.task_bytes:
            raise Overloaded(
                f"the data of a task are too large: at most {self._bounds.task_bytes} bytes, got {len(record.data)}"
            )

    def _note_unacknowledged(self, token: str, id: str) -> None:
        if len(self._unacknowledged) < _MAX_UNACKNOWLEDGED:
            self._unacknowledged[token] = id, None

    def _announce(self, change: TaskChange) -> None:
        changed = [*change.others, *([change.record.id] if change.record is not None else [])]
        for id in changed:
            self._publish(task_topic(id), TASK_CHANGED)
        if change.has_freed:
            self.announce_queued()

    def _publish(self, topic: str, message: bytes) -> None:
        if self._bus is not None:
            self._bus.publish(topic, message)


def check_task_state(stored: TaskState, new_state: TaskState) -> None:
    """Check a change of state by a process that does not hold the task.

    Raises:
        ValueError: Only the holder may make this change.
    """
    if new_state is not stored and (stored, new_state) != (TaskState.QUEUED, TaskState.ENDED):
        expected = "QUEUED or ENDED" if stored is TaskState.QUEUED else "RUNNING"
        raise ValueError(f"state: expected {expected} from a process that does not hold the task, got {new_state.name}")
