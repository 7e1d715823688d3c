"""The method ``tasks/result``, which waits for the end of a task and asks the client its open questions.

Source: MCP 2025-11-25, basic/utilities/tasks, "Result Retrieval" and "Input Required Status".
"""

from __future__ import annotations

import time
from math import inf
from typing import Any, Final

import trio

from mcptrio.errors import ConnectionClosed, InternalError, MCPError
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.protocol.messages import ErrorResponse
from mcptrio.protocol.model.tasks import RELATED_TASK, GetTaskParams, GetTaskResult
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.tasks.document import TaskDocument, announcement
from mcptrio.tasks.tasks import Tasks

__all__ = ["TaskResults"]

_STATUS: Final = "notifications/tasks/status"


class TaskResults:
    """Handles ``tasks/result``."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self.handlers: dict[str, Handler] = {"tasks/result": self._result}

    async def _result(self, scope: RequestScope, params: GetTaskParams) -> dict[str, Any]:
        record = await self._tasks.find(scope, params.task_id)
        # The task has its own deadline; after that, its record is deleted.
        scope.begin(max(1.0, (record.expires or inf) - time.time()))
        document = await _WaitingClient(self._tasks, scope, params.task_id).wait()
        result = document.outcome(scope.request.peer.revision)
        result["_meta"] = {**(result.get("_meta") or {}), **_related_meta(params.task_id)}
        return result


class _WaitingClient:
    """One client that waits for the end of a task."""

    def __init__(self, tasks: Tasks, scope: RequestScope, id: str) -> None:
        self._tasks = tasks
        self._scope = scope
        self._id = id
        self._revision = scope.request.peer.revision
        self._changed = trio.Event()
        self._questions: dict[str, trio.CancelScope] = {}
        """The cancel scopes of all questions that were sent to this client, by key."""
        self._last_state: GetTaskResult | None = None

    async def wait(self) -> TaskDocument:
        """Wait until the task has ended, and return its document. Meanwhile, ask the client the open questions.

        Raises:
            InvalidParams: The task has expired.
            InternalError: The server is stopping.
        """
        stop_following = self._tasks.follow(self._id, lambda message: self._changed.set())
        try:
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(self._wake_on_closing)
                while True:
                    self._changed = trio.Event()
                    record = await self._tasks.find(self._scope, self._id)
                    document = TaskDocument.decode(record.data)
                    self._notify(document.get_task_result(record, self._revision))
                    if document.has_ended_for(self._revision):
                        return document
                    if self._scope.session.closing.is_set():
                        raise InternalError("the server is stopping: ask for the result again")
                    self._ask_all(nursery, document)
                    await self._changed.wait()
        finally:
            stop_following()

    async def _wake_on_closing(self) -> None:
        await self._scope.session.closing.wait()
        self._changed.set()

    def _notify(self, state: GetTaskResult) -> None:
        if self._last_state not in (None, state):
            self._scope.notify(_STATUS, announcement(state), key=(_STATUS, self._id, self._scope))
        self._last_state = state

    def _ask_all(self, nursery: trio.Nursery, document: TaskDocument) -> None:
        for key, cancel_scope in self._questions.items():
            if key not in document.questions:
                # Another request had the answer, or the handler no longer needs it.
                cancel_scope.cancel()
        for key, wire in document.questions_in(self._revision).items():
            if key not in self._questions:
                cancel_scope = self._questions[key] = trio.CancelScope()
                nursery.start_soon(self._ask, key, wire, cancel_scope)

    async def _ask(self, key: str, wire: dict[str, Any], cancel_scope: trio.CancelScope) -> None:
        scope = self._scope
        params = dict(wire.get("params") or {})
        params["_meta"] = {**(params.get("_meta") or {}), **_related_meta(self._id)}
        answer: dict[str, Any]
        with cancel_scope:
            try:
                # Without a timeout: the question ends with this request, which has the deadline of the task.
                answer = await scope.session.outgoing.request(
                    wire["method"], params, peer=scope.request.peer, sink=scope.sink, timeout=inf
                )
            except ConnectionClosed:
                return
            except MCPError as error:
                response = ErrorResponse.of(None, error)
                answer = {"error": {"code": response.code, "message": response.message, "data": response.data}}
            await self._tasks.answer(scope, self._id, {key: answer})


def _related_meta(id: str) -> dict[str, Any]:
    return {RELATED_TASK: {"taskId": id}}
