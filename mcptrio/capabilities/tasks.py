"""The methods ``tasks/get``, ``tasks/update`` and ``tasks/cancel``, and changes of tasks for subscribers.

Source: MCP extension io.modelcontextprotocol/tasks, 2026-07-28.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

import trio
from attrs import asdict

from mcptrio.errors import InvalidParams, StoreFailed
from mcptrio.ground.backoff import Backoff
from mcptrio.protocol.envelope import SUBSCRIPTION_ID
from mcptrio.protocol.model.base import EmptyResult
from mcptrio.protocol.model.tasks import (
    TASKS_EXTENSION,
    CancelTaskParams,
    GetTaskParams,
    GetTaskResult,
    TaskParams,
    UpdateTaskParams,
)
from mcptrio.runtime.inputs import require
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.tasks.document import TaskDocument
from mcptrio.tasks.tasks import Tasks

__all__ = ["TaskMethods"]

_log = logging.getLogger("mcptrio.tasks")

_METHOD = "notifications/tasks"


class TaskMethods:
    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._changed: dict[tuple[RequestScope, str], None] = {}
        """Streams and the tasks that have changed since they were told; at most one entry for each subscription."""
        self._woken = trio.Event()
        self.handlers: dict[str, Handler] = {
            "tasks/get": self._get,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
        }

    async def _get(self, scope: RequestScope, params: GetTaskParams) -> GetTaskResult:
        require(scope.request.peer, TASKS_EXTENSION)
        record = await self._tasks.find(scope, params.task_id)
        return TaskDocument.decode(record.data).shown(record)

    async def _update(self, scope: RequestScope, params: UpdateTaskParams) -> EmptyResult:
        require(scope.request.peer, TASKS_EXTENSION)
        await self._tasks.answer(scope, params.task_id, params.input_responses)
        return EmptyResult()

    async def _cancel(self, scope: RequestScope, params: CancelTaskParams) -> EmptyResult:
        require(scope.request.peer, TASKS_EXTENSION)
        await self._tasks.cancel(scope, params.task_id)
        return EmptyResult()

    # Subscribers

    async def known(self, scope: RequestScope, ids: Sequence[str]) -> tuple[str, ...]:
        """Return those of the tasks that belong to the principal of a request.

        Raises:
            MissingClientCapability: The client does not support tasks.
        """
        require(scope.request.peer, TASKS_EXTENSION)
        known = []
        for id in dict.fromkeys(ids):
            try:
                await self._tasks.find(scope, id)
            except InvalidParams:
                continue
            known.append(id)
        return tuple(known)

    def follow(self, scope: RequestScope, ids: Sequence[str]) -> Callable[[], None]:
        """Send the tasks to the stream of a request now and after each change. Returns a function that ends this."""
        stack = ExitStack()
        for id in ids:
            stack.callback(self._changed.pop, (scope, id), None)
            stack.callback(self._tasks.follow(id, partial(self._note_change, scope, id)))
            self._note_change(scope, id)
        return stack.close

    async def run(self) -> None:
        """Send the changed tasks, until cancelled."""
        backoff = Backoff(0.2, 5.0)
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            while self._changed:
                scope, id = next(iter(self._changed))
                del self._changed[scope, id]
                try:
                    await self._tell(scope, id)
                    backoff.reset()
                except StoreFailed as error:
                    _log.warning("the change of a task was not sent yet: task=%s: %s", id[:6], error)
                    self._changed[scope, id] = None
                    await trio.sleep(backoff.draw())
                except ValueError as error:
                    # Another version of mcptrio has written it, which must not end the task of all subscribers.
                    _log.warning("the change of a task cannot be read: task=%s: %s", id[:6], error)

    def _note_change(self, scope: RequestScope, id: str, message: bytes | None = None) -> None:
        self._changed[scope, id] = None
        self._woken.set()

    async def _tell(self, scope: RequestScope, id: str) -> None:
        record = await self._tasks.store.load(id)
        if record is None:
            return
        shown = TaskDocument.decode(record.data).shown(record)
        # All members of the result but its _meta.
        members: dict[str, Any] = asdict(cast("Any", shown), recurse=False)
        members["meta"] = {SUBSCRIPTION_ID: scope.request.id}
        params = TaskParams(**members)
        scope.notify(_METHOD, params, key=(_METHOD, id, scope))
