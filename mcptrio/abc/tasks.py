"""The store of durable tasks: work that outlives the request that began it, and the process that runs it.

A task is queued, then run by one process, then ended. The store knows who holds it and which tool it is of; everything
else is data of the runtime.

Source: MCP extension io.modelcontextprotocol/tasks, 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

from attrs import field, frozen

__all__ = [
    "TASKS_TOPIC",
    "TASK_CHANGED",
    "TASK_QUEUED",
    "TaskQueue",
    "TaskRecord",
    "TaskState",
    "TaskStore",
    "task_topic",
]

TASK_CHANGED: Final = b"changed"
"""Published on the :func:`task_topic` of a task after each change, its deletion included."""
TASKS_TOPIC: Final = "tasks"
"""The topic of the bus about tasks that any process may claim."""
TASK_QUEUED: Final = b"queued"
"""Published on :data:`TASKS_TOPIC` when a task may have become claimable."""


class TaskState(Enum):
    """Who works on a task."""

    QUEUED = "queued"
    """No process. Any may claim it."""
    RUNNING = "running"
    """The process that holds it."""
    ENDED = "ended"
    """Final: neither the state nor the data change any more."""


@frozen(kw_only=True)
class TaskRecord:
    """A task as every replica sees it."""

    id: str
    """Given by the runtime; unguessable."""
    owner: str = ""
    """Names the principal to which the task belongs, for the limit per owner and for ``list``; opaque."""
    tool: str
    state: TaskState
    data: bytes = field(repr=False)
    """Everything else, in a form that only the runtime knows: the request, questions, answers, the result."""
    created: float = 0.0
    """Seconds since 1970 by the clock of the store, which sets it."""
    expires: float | None = None
    """Seconds since 1970 by the clock of the store, after which the task is deleted, whatever its state. ``None``: the
    store replaces it by ``created`` and its own limit."""
    fence: int = 0
    """How often the task has been claimed: the number of its present holder."""
    generation: int = 0
    """How often the record has been stored; 0 for a new one."""


@frozen
class TaskQueue:
    """The tasks of one tool that have not ended.

    Args:
        tool: The name of the tool.
        queued: Tasks that no process holds.
        running: Tasks that processes hold.
        oldest: The age in seconds of the queued task that was created first; 0.0 if there is none.
    """

    tool: str
    queued: int
    running: int
    oldest: float


class TaskStore(Protocol):
    """Durable tasks. A failure raises StoreFailed; then the change may have been made, except for :meth:`create` and
    :meth:`claim`, which the store takes back as soon as it can.

    A process holds a task until it saves another state, or until the process has ended: its lease has been missing for
    a whole lease, or the system has released its lock. Then the store queues the task again. A store in memory has one
    process, which holds all running tasks.

    An expired task is no longer found. After each change the store publishes :data:`TASK_CHANGED` and
    :data:`TASK_QUEUED`.
    """

    async def create(self, record: TaskRecord, *, keep: float | None = None) -> TaskRecord:
        """Store a new task: a running one is held by this process, a queued one waits for any. Durable on return.

        Args:
            keep: Seconds after its creation for which it is kept, if the record has no expiry; by default the limit of
                the store.

        Returns:
            The record with its times, fence and generation.

        Raises:
            Overloaded: There are too many tasks in total, or too many of the owner that have not ended, or the data are
                too large.
            ValueError: The state is ENDED.
            StoreFailed: The id is in use.
        """
        ...

    async def load(self, id: str) -> TaskRecord | None:
        """Return a task, or ``None`` if it does not exist."""
        ...

    async def list(self, owner: str, after: str = "") -> list[TaskRecord]:
        """Return tasks of an owner in the order of their creation, a page at a time.

        Args:
            after: The id of the last task of the page before.

        Returns:
            At least one task if there are more. None if ``after`` does not exist any more: begin again.
        """
        ...

    async def save(self, record: TaskRecord, *, held: bool = False) -> TaskRecord | None:
        """Store state, data and expiry if the stored record still has this generation: compare and set.

        Args:
            record: The record. Owner, tool, time of creation and fence stay as they are stored.
            held: Whether this process must hold the task with the fence of the record. Then any state may be saved;
                QUEUED gives the task back. Otherwise the state must be the stored one, or ENDED for a queued task.

        Returns:
            The record with its new generation. ``None`` if the stored record has another one, has ended or does not
            exist, or if ``held`` and this process does not hold the task any more.

        Raises:
            Overloaded: The data are too large.
            ValueError: The change of state is none of those above.
        """
        ...

    async def claim(self, tools: Mapping[str, int]) -> TaskRecord | None:
        """Hold the queued task that was created first, and return it; no other process gets it.

        Args:
            tools: The tools whose tasks this process can run, with the number of tasks that may run at the same time
                over all processes; 0 for any number.

        Returns:
            The record: RUNNING, with a new fence and generation. ``None`` if there is none to run now.
        """
        ...

    async def queues(self) -> Sequence[TaskQueue]:
        """Return the tools that have tasks that have not ended, by name."""
        ...

    async def expire(self) -> int:
        """Delete expired tasks, in bounded batches, and return how many."""
        ...


def task_topic(id: str) -> str:
    """Return the topic of the bus about one task."""
    return f"task:{id}"
