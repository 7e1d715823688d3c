"""Work that outlives its request, as requests, runs and the supervisor see it.

:mod:`mcptrio.tasks` implements it. The runtime knows neither how a task is stored nor how its client follows it.
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
        """Identifies the call in the store of side effects."""
        ...

    @property
    def keep(self) -> float:
        """Seconds for which results of side effects are kept, for a process that takes over the task."""
        ...

    @property
    def is_released(self) -> bool:
        """Whether it was cancelled here so that another process runs it again from the start."""
        ...

    def note_resumable(self) -> None:
        """Store that another process may run it again from the start. Does not block."""
        ...

    def set_status(self, message: str) -> None:
        """Set the text that clients see as the task's status. Does not block."""
        ...

    async def watch(self, run: Any) -> None:
        """Wait until a handler, a :class:`mcptrio.runtime.runs.Run`, has ended. Its questions go to the client."""
        ...


class TaskPlan(Protocol):
    """How a running call becomes a task."""

    async def begin(self) -> None:
        """Make a task of the call now, if that is possible. The handler calls it."""
        ...

    async def settle(self, run: Any, channel: Any) -> Any:
        """Wait as :meth:`mcptrio.runtime.runs.Run.settle` does, but only for a while. Then make a task of the call.

        Args:
            run: The handler, a :class:`mcptrio.runtime.runs.Run`.
            channel: The input channel of the handler.

        Returns:
            The result that tells the client of the task, or ``None``: the handler has ended or asks, and the call is
            no task.
        """
        ...


class LongTasks(Protocol):
    """All tasks of a server, for its supervisor."""

    def stop(self) -> None:
        """Take no more tasks, and give those back that another process can resume."""
        ...

    async def finish(self) -> None:
        """End the running tasks with an error. Takes a few seconds at most."""
        ...
