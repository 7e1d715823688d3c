"""The methods of tasks, except for ``tasks/result``, and the notifications of their changes to subscribers.

Source: MCP extension io.modelcontextprotocol/tasks, 2026-07-28; MCP 2025-11-25, basic/utilities/tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

import trio

from mcptrio.errors import InvalidParams, MethodNotFound, StoreFailed
from mcptrio.ground.backoff import Backoff
from mcptrio.protocol.envelope import SUBSCRIPTION_ID
from mcptrio.protocol.model.base import EmptyResult
from mcptrio.protocol.model.tasks import (
    TASKS_EXTENSION,
    CancelTaskParams,
    GetTaskParams,
    GetTaskResult,
    ListTasksParams,
    ListTasksResult,
    UpdateTaskParams,
)
from mcptrio.protocol.revisions.revision import TaskCreation
from mcptrio.runtime.inputs import require
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.tasks.call import owner_of
from mcptrio.tasks.document import TaskDocument, announcement
from mcptrio.tasks.tasks import Tasks

__all__ = ["TaskMethods"]

_log = logging.getLogger("mcptrio.tasks")

_METHOD = "notifications/tasks"


class TaskMethods:
    """Handles the methods of tasks, and notifies subscribers."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._changed: dict[tuple[RequestScope, str], None] = {}
        """The streams to notify, each with a task that has changed; at most one entry for each subscription."""
        self._woken = trio.Event()
        self.handlers: dict[str, Handler] = {
            "tasks/get": self._get,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
            "tasks/list": self._list,
        }

    async def _get(self, scope: RequestScope, params: GetTaskParams) -> GetTaskResult:
        _require_tasks(scope)
        return await self._state(scope, params.task_id)

    async def _state(self, scope: RequestScope, id: str) -> GetTaskResult:
        record = await self._tasks.find(scope, id)
        return TaskDocument.decode(record.data).get_task_result(record, scope.request.peer.revision)

    async def _update(self, scope: RequestScope, params: UpdateTaskParams) -> EmptyResult:
        _require_tasks(scope)
        await self._tasks.answer(scope, params.task_id, params.input_responses)
        return EmptyResult()

    async def _cancel(self, scope: RequestScope, params: CancelTaskParams) -> GetTaskResult | EmptyResult:
        _require_tasks(scope)
        is_first = await self._tasks.cancel(scope, params.task_id)
        if scope.request.peer.revision.tasks is TaskCreation.BY_SERVER:
            return EmptyResult()
        state = await self._state(scope, params.task_id)
        if not is_first:
            raise InvalidParams(f"expected a task that has not ended at `taskId`, got one that is {state.status}")
        return state

    async def _list(self, scope: RequestScope, params: ListTasksParams) -> ListTasksResult:
        if scope.principal is None:
            # The tasks of all anonymous clients have the same owner, and only their ids protect them.
            raise MethodNotFound("tasks/list: expected a client with an identity: the server has no authorization")
        after = params.cursor or ""
        if after:
            await self._tasks.find(scope, after)
        records = await self._tasks.store.list(owner_of(scope), after)
        revision = scope.request.peer.revision
        return ListTasksResult(
            tasks=tuple(TaskDocument.decode(record.data).get_task_result(record, revision) for record in records),
            next_cursor=records[-1].id if records else None,
        )

    # Subscribers

    async def known(self, scope: RequestScope, ids: Sequence[str]) -> tuple[str, ...]:
        """Return the ids of those tasks that exist and belong to the principal of a request.

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
        """Send tasks to the stream of a request, now and after each change. Returns a function that ends this."""
        stack = ExitStack()
        for id in ids:
            stack.callback(self._changed.pop, (scope, id), None)
            stack.callback(self._tasks.follow(id, partial(self._note_change, scope, id)))
            self._note_change(scope, id)
        return stack.close

    async def run(self) -> None:
        """Send notifications of changed tasks, until cancelled."""
        backoff = Backoff(0.2, 5.0)
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            while self._changed:
                scope, id = next(iter(self._changed))
                del self._changed[scope, id]
                try:
                    await self._notify(scope, id)
                    backoff.reset()
                except StoreFailed as error:
                    _log.warning("task change not sent, trying again: task=%s: %s", id[:6], error)
                    self._changed[scope, id] = None
                    await trio.sleep(backoff.next_pause())
                except ValueError as error:
                    # Another version of mcptrio may have written the record. The loop must go on for other subscribers.
                    _log.warning("task change not sent, the record is unreadable: task=%s: %s", id[:6], error)

    def _note_change(self, scope: RequestScope, id: str, message: bytes | None = None) -> None:
        self._changed[scope, id] = None
        self._woken.set()

    async def _notify(self, scope: RequestScope, id: str) -> None:
        record = await self._tasks.store.load(id)
        if record is None:
            return
        document = TaskDocument.decode(record.data).get_task_result(record, scope.request.peer.revision)
        params = announcement(document, {SUBSCRIPTION_ID: scope.request.id})
        scope.notify(_METHOD, params, key=(_METHOD, id, scope))


def _require_tasks(scope: RequestScope) -> None:
    if scope.request.peer.revision.tasks is TaskCreation.BY_SERVER:
        require(scope.request.peer, TASKS_EXTENSION)
