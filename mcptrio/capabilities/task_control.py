"""``ctx.task``, with which a handler controls the task of its call."""

from __future__ import annotations

import trio

from mcptrio.runtime.inputs import InputChannel

__all__ = ["TaskControl"]


class TaskControl:
    """The task that a call is or may become. Made by the server.

    If the client does not support tasks, these methods have no effect.

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
        """Make the call a task now, instead of after ``timeouts.task_after``. A checkpoint.

        Earlier questions are part of the call; later ones are part of the task.
        """
        scope = self._inputs.scope
        if scope.task is None and scope.plan is not None:
            await scope.plan.begin()
        else:
            await trio.lowlevel.checkpoint()

    def set_status(self, message: str) -> None:
        """Set the text that users see as the status of the task.

        Args:
            message: The status in words. Only the first 1,000 characters are sent.
        """
        task = self._inputs.scope.task
        if task is not None:
            task.set_status(message)
