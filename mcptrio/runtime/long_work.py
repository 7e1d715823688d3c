"""The interfaces of tasks, which are calls that outlive their request, for the runtime.

:mod:`mcptrio.tasks` implements them. The runtime does not know how a task is stored or how its client follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["LongTasks", "LongWork", "TaskPlan"]


class LongWork(Protocol):
    """One task that this process runs."""

    @property
    def id(self) -> str: ...

    @property
    def answers(self) -> Mapping[str, Any]:
        """The client's answers so far, in wire form, by the keys of their questions."""
        ...

    @property
    def effects(self) -> Mapping[str, Any]:
        """Results of side effects from before the call became a task, by key."""
        ...

    @property
    def call(self) -> str:
        """The id of the call in the store of side effects."""
        ...

    @property
    def keep(self) -> float:
        """Seconds for which the store keeps results of side effects, for a process that takes over the task."""
        ...

    @property
    def is_released(self) -> bool:
        """True if it was cancelled here so that another process runs it again from the start."""
        ...

    def note_resumable(self) -> None:
        """Record in the store that another process may run the task again from the start. Does not block."""
        ...

    def set_status(self, message: str) -> None:
        """Set the text that clients see as the task's status. Does not block."""
        ...

    async def watch(self, run: Any) -> None:
        """Wait until a handler has ended, and pass its questions to the client.

        Args:
            run: The handler, a :class:`mcptrio.runtime.runs.Run`.
        """
        ...


class TaskPlan(Protocol):
    """How a running call becomes a task."""

    async def begin(self) -> None:
        """Make the call a task now, if that is possible. The handler calls this."""
        ...

    async def settle(self, run: Any, channel: Any) -> Any:
        """Wait as :meth:`mcptrio.runtime.runs.Run.settle` does, but for a limited time. Then make the call a task.

        Args:
            run: The handler, a :class:`mcptrio.runtime.runs.Run`.
            channel: The input channel of the handler.

        Returns:
            The result that tells the client of the task; ``None`` if the call has not become a task, because the
            handler has ended or asks.
        """
        ...


class LongTasks(Protocol):
    """All tasks of a server, for its supervisor."""

    def stop(self) -> None:
        """Take no more tasks, and release the running ones that another process can resume."""
        ...

    async def finish(self) -> None:
        """End the running tasks with an error. Takes a few seconds at most."""
        ...
