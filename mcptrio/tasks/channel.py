"""The input channel of a task: questions go into its record, and answers come from there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcptrio.protocol.messages import ErrorResponse
from mcptrio.protocol.remote_errors import client_error
from mcptrio.runtime.inputs import InputQuestion
from mcptrio.runtime.request_state import Journal
from mcptrio.runtime.run_channel import RunChannel
from mcptrio.runtime.runs import Run

__all__ = ["TaskChannel"]


class TaskChannel(RunChannel):
    """See :class:`mcptrio.runtime.run_channel.RunChannel`.

    An answer may be an object with the member ``error``: a client of 2025-11-25 has refused the question, and the call
    fails with its error.
    """

    async def run(self, handler: Callable[[], Awaitable[Any]], *, parks: bool = True) -> Any:
        task = self.scope.task
        assert task is not None, "only for the request of a task"
        journal = Journal(once=dict(task.effects), call=task.call)
        run = self._run = Run(self._runs, self, self._work, journal, dict(task.answers), parks=False)
        run.keep = task.keep
        self._runs.start(run.run, handler)
        await task.watch(run)
        return run.value()

    def read(self, question: InputQuestion, raw: Any) -> Any:
        error = raw.get("error") if isinstance(raw, dict) else None
        if isinstance(error, dict):
            response = ErrorResponse(None, error["code"], error["message"], error.get("data"))
            raise client_error(response, self.scope.request.peer.revision)
        return super().read(question, raw)
