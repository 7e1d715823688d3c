"""The task of a call, as its handler sees it: ``ctx.task``."""

from __future__ import annotations

import trio

from mcptrio.runtime.inputs import InputChannel

__all__ = ["TaskControl"]


class TaskControl:
    """The task of a call. Made by the server.

    A call of a client without tasks has no task. Then these methods have no effect.

    Source: MCP extension io.modelcontextprotocol/tasks.
    """

    def __init__(self, inputs: InputChannel) -> None:
        self._inputs = inputs

    @property
    def id(self) -> str | None:
        """The id that the client knows; ``None`` while the call is not a task."""
        task = self._inputs.scope.task
        return task.id if task is not None else None

    async def begin(self) -> None:
        """Make a task of the call now, instead of after ``timeouts.task_after``. A checkpoint.

        Questions before it are part of the call; later ones are part of the task.
        """
        scope = self._inputs.scope
        if scope.task is None and scope.plan is not None:
            await scope.plan.begin()
        else:
            await trio.lowlevel.checkpoint()

    def set_status(self, message: str) -> None:
        """Show a text about the status to users.

        Args:
            message: The status in words. Only the first 1,000 characters are sent.
        """
        task = self._inputs.scope.task
        if task is not None:
            task.set_status(message)
