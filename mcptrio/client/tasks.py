"""Tasks of a server: the client polls them, answers their questions, and cancels abandoned ones.

``Client.call_tool`` uses this when the server answers with a task, and ``Client.task`` for a task of an earlier
process.

Source: MCP extension io.modelcontextprotocol/tasks, 2026-07-28; MCP 2025-11-25, basic/utilities/tasks.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import inf
from typing import Any, Final, TypeAlias, TypeVar

import trio
from attrs import frozen

from mcptrio.client.calls import OnProgress, Progress
from mcptrio.client.requests import ClientRequests, answer_all
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.client.task_listener import FollowedTask, TaskListener
from mcptrio.errors import (
    ConnectionClosed,
    InvalidParams,
    MCPTrioError,
    Overloaded,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    TaskCancelled,
)
from mcptrio.ground.backoff import Backoff
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.protocol.messages import ErrorResponse
from mcptrio.protocol.model.input_required import InputRequest
from mcptrio.protocol.model.tasks import (
    CancelTaskParams,
    CreateTaskResult,
    GetTaskParams,
    GetTaskResult,
    TaskStatus,
    UpdateTaskParams,
)
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.protocol.remote_errors import server_error
from mcptrio.protocol.revisions.revision import TaskCreation

__all__ = ["ClientTask", "ServerTask"]

T = TypeVar("T")
Advance: TypeAlias = Callable[[GetTaskResult], Awaitable[bool]]
"""Handles a new state of a task, and returns whether the task waits for the client."""
AnswerAll: TypeAlias = Callable[[Mapping[str, InputRequest]], Awaitable[dict[str, Any]]]
"""Returns the answers in wire form, by the keys of the questions."""

_log = logging.getLogger("mcptrio.client.tasks")

MIN_POLL_SECONDS: Final = 0.05
"""Minimum seconds between two polls, whatever the server requests."""
DEFAULT_POLL_SECONDS: Final = 2.0
"""Seconds between two polls if the server requests no interval."""
MAX_POLL_SECONDS: Final = 60.0
"""Maximum seconds between two polls, whatever the server requests."""
REPORTED_POLLS: Final = 5
"""While the server reports changes of the task, the interval between polls is this many times longer."""
CANCEL_TIMEOUT: Final = 5.0
"""Seconds for sending the cancellation of a task."""
RESULT_TIMEOUT: Final = 30.0
"""Seconds for the result of a task that has ended (2025-11-25)."""
MAX_QUESTIONS: Final = 1000
"""Questions of one task. A further question ends the call with an error."""


@frozen(kw_only=True)
class ServerTask:
    """The state of a task.

    Args:
        id: The id, by which a later process can find the task.
        status: ``working``, ``input_required``, ``completed``, ``failed`` or ``cancelled``.
        message: A text for users about the status.
        created: The time of its creation, ISO 8601.
        updated: The time of its last change, ISO 8601.
        ttl: Seconds after the creation until the server may delete the task; ``None`` without limit.
    """

    id: str
    status: TaskStatus
    message: str | None
    created: str
    updated: str
    ttl: float | None


class ClientTask:
    """One task of a server. Made by ``Client.task``.

    Args:
        id: The id that the server gave to the task.
        timeout: Seconds without a change to the task after which :meth:`result` ends with an error; ``None`` without
            limit.
    """

    def __init__(
        self,
        requests: ClientRequests,
        supervisor: ClientSupervisor,
        listener: TaskListener,
        id: str,
        *,
        timeout: float | None = None,
    ) -> None:
        self.id = id
        self._requests = requests
        self._supervisor = supervisor
        self._listener = listener
        self._timeout = inf if timeout is None else timeout
        self.status: TaskStatus = "working"
        """The status that the server has last reported."""
        self._answered: set[str] = set()
        self._reports = 0
        self._watcher: Callable[[TaskStatus, str | None], object] | None = None
        self._answer_all: AnswerAll | None = None
        self.is_detached = False
        """True if the task keeps running when the call that has created it is cancelled."""

    async def state(self) -> ServerTask:
        """Ask the server for the state of the task.

        Raises:
            MCPError: The server does not know the task any more, or it belongs to another user.
        """
        state = await self._get()
        return ServerTask(
            id=state.task_id,
            status=state.status,
            message=state.status_message,
            created=state.created_at,
            updated=state.last_updated_at,
            ttl=state.ttl_ms / 1000 if state.ttl_ms is not None else None,
        )

    async def cancel(self) -> None:
        """Ask the server to cancel the task, which may still end in another way.

        Raises:
            MCPError: The server does not know the task any more, or it belongs to another user.
        """
        await self._requests.send("tasks/cancel", CancelTaskParams(task_id=self.id))

    async def result(self, *, progress: OnProgress | None = None) -> CallToolResult:
        """Wait for the result. The handlers of the client answer questions of the server.

        If the caller is cancelled, the task keeps running.

        Args:
            progress: Called with each new text about the status.

        Raises:
            TaskCancelled: The task was cancelled.
            MCPError: The task has failed, or the server does not know it.
            RequestTimeout: The task has not changed for the timeout.
            RemoteProtocolError: The server has sent another task, or too many questions.
        """
        return await self._follow(await self._get(), progress)

    # For Client.call_tool, hosts and mounts

    def _watch(self, changed: Callable[[TaskStatus, str | None], object]) -> None:
        """Call a function with the status and its text each time that the server reports the task."""
        self._watcher = changed

    async def _finish(
        self,
        created: CreateTaskResult,
        progress: OnProgress | None,
        answer: AnswerAll | None = None,
        *,
        is_released: Callable[[], bool] = lambda: False,
    ) -> CallToolResult:
        """Wait like :meth:`result`. The task is cancelled if the caller is cancelled or a question cannot be answered,
        unless the task is detached.

        Args:
            answer: Answers the questions; by default the handlers of the client do.
            is_released: Returns whether the caller has left the task to another process.
        """
        is_done = False
        self._answer_all = answer
        self._note_status(created)
        try:
            result = await self._follow(created, progress)
            is_done = True
            return result
        except TaskCancelled:
            is_done = True
            raise
        finally:
            if not (is_done or self.is_detached or is_released()):
                await self._cancel_abandoned()  # noqa: ASYNC102 - shields what it sends, and has its own deadline

    # Private

    async def _cancel_abandoned(self) -> None:
        with trio.move_on_after(CANCEL_TIMEOUT, shield=True):
            try:
                await self.cancel()
            except (MCPTrioError, OSError) as error:
                _log.info("task not cancelled: task=%s: %s", self.id[:6], error)

    async def _get(self) -> GetTaskResult:
        state: GetTaskResult = await self._requests.send("tasks/get", GetTaskParams(task_id=self.id))
        if state.task_id != self.id:
            raise RemoteProtocolError(f"expected the state of task {self.id}, got that of {state.task_id!r:.200}")
        self._note_status(state)
        return state

    def _note_status(self, state: CreateTaskResult | GetTaskResult) -> None:
        self.status = state.status
        if self._watcher is not None:
            self._watcher(state.status, state.status_message)

    async def _follow(self, state: CreateTaskResult | GetTaskResult, progress: OnProgress | None) -> CallToolResult:
        with self._listener.following(self.id) as followed:
            session = await self._supervisor.current()
            if session.revision.tasks is TaskCreation.BY_CLIENT:
                return await self._fetch_result(state, progress, followed)
            return await self._end(await self._until_ended(state, progress, followed, self._answer))

    async def _fetch_result(
        self, state: CreateTaskResult | GetTaskResult, progress: OnProgress | None, followed: FollowedTask
    ) -> CallToolResult:
        """Return the result in 2025-11-25, where the server also asks its questions on the request for the result."""
        results: list[CallToolResult] = []
        is_asked = False

        async def fetch(state: GetTaskResult) -> None:
            params = GetTaskParams(task_id=self.id)
            # The server answers when the task has ended, and asks its questions before.
            send = partial(self._requests.send, "tasks/result", params, timeout=inf)
            results.append(await self._send_until_answered(state, send))
            nursery.cancel_scope.cancel()

        async def advance(state: GetTaskResult) -> bool:
            nonlocal is_asked
            asks = state.status == "input_required"
            if asks and not is_asked:
                is_asked = True
                nursery.start_soon(fetch, state)
            return asks

        async with open_hidden_nursery() as nursery:
            ended = await self._until_ended(state, progress, followed, advance)
            if ended.status == "cancelled":
                raise TaskCancelled(ended.status_message or "the task was cancelled")
            if not is_asked:
                nursery.start_soon(fetch, ended)
            await trio.sleep(RESULT_TIMEOUT)
        if not results:
            raise RequestTimeout(f"task {self.id}: no result within {RESULT_TIMEOUT:g} s", seconds=RESULT_TIMEOUT)
        return results[0]

    async def _until_ended(
        self,
        state: CreateTaskResult | GetTaskResult,
        progress: OnProgress | None,
        followed: FollowedTask,
        advance: Advance,
    ) -> GetTaskResult:
        """Return the state of the task once it has ended."""
        last_change, changed = state.last_updated_at, trio.current_time()
        message: str | None = None
        while True:
            # The exception has the text about a failure or a cancellation.
            if state.status_message not in (None, message) and state.status not in ("failed", "cancelled"):
                message = state.status_message
                await self._report(progress, message)
            if isinstance(state, GetTaskResult):
                if state.status in ("completed", "failed", "cancelled"):
                    return state
                if await advance(state):
                    changed = trio.current_time()
            remaining = changed + self._timeout - trio.current_time()
            if remaining <= 0:
                raise RequestTimeout(f"task {self.id}: no change within {self._timeout:.3g} s", seconds=self._timeout)
            state = await self._next(state, followed, remaining)
            if state.last_updated_at != last_change:
                last_change, changed = state.last_updated_at, trio.current_time()

    async def _next(
        self, state: CreateTaskResult | GetTaskResult, followed: FollowedTask, seconds: float
    ) -> GetTaskResult:
        """Return the next state that the server reports, or poll after the interval and after ``seconds``."""
        answered_at = trio.current_time()
        while True:
            self._listener.listen()
            pause = _pause(state, is_reported=followed.is_reported)
            reported_state = await followed.next(answered_at + min(pause, seconds))
            if reported_state is not None:
                self._note_status(reported_state)
                return reported_state
            pause = _pause(state, is_reported=followed.is_reported)
            if trio.current_time() >= answered_at + min(pause, seconds):
                return await self._send_until_answered(state, self._get)

    async def _send_until_answered(
        self, state: CreateTaskResult | GetTaskResult, send: Callable[[], Awaitable[T]]
    ) -> T:
        """Send a request, and retry while the server cannot be reached."""
        backoff = Backoff()
        # After this time, the server may have deleted the task.
        end = inf if state.ttl_ms is None else trio.current_time() + state.ttl_ms / 1000
        while True:
            try:
                return await send()
            except (RequestFailed, ConnectionClosed, Overloaded) as error:
                has_ended = isinstance(error, ConnectionClosed) and not self._supervisor.restarts
                if has_ended or trio.current_time() >= end:
                    raise
                _log.info("task request failed, trying again: task=%s: %s", self.id[:6], error)
                backoff.wait_at_least(getattr(error, "retry_after", None) or 0.0)
                await trio.sleep(backoff.next_pause())

    async def _answer(self, state: GetTaskResult) -> bool:
        """Answer the questions that are new. Return whether there were any."""
        questions: dict[str, Any] = state.input_requests or {}
        new_questions = {key: question for key, question in questions.items() if key not in self._answered}
        if not new_questions:
            return False
        if len(self._answered) + len(new_questions) > MAX_QUESTIONS:
            raise RemoteProtocolError(f"expected at most {MAX_QUESTIONS} questions of one task, got more")
        session = await self._supervisor.current()
        try:
            read = {key: session.revision.structure(wire, InputRequest) for key, wire in new_questions.items()}
        except InvalidParams as error:
            raise RemoteProtocolError(f"a question of task {self.id}: {error.message}") from error
        answers = await (answer_all(session, read) if self._answer_all is None else self._answer_all(read))
        params = UpdateTaskParams(task_id=self.id, input_responses=answers)
        # A lost connection must not lose the user's answers.
        await self._send_until_answered(state, partial(self._requests.send, "tasks/update", params))
        self._answered |= new_questions.keys()
        return True

    async def _end(self, state: GetTaskResult) -> CallToolResult:
        session = await self._supervisor.current()
        if state.status == "cancelled":
            raise TaskCancelled(state.status_message or "the task was cancelled")
        if state.status == "failed":
            error = state.error or {}
            code, message = error.get("code"), error.get("message")
            if not isinstance(code, int) or not isinstance(message, str):
                raise RemoteProtocolError(f"expected the error of failed task {self.id}, got {error!r:.200}")
            raise server_error(ErrorResponse(None, code, message, error.get("data")), session.revision, None)
        if state.result is None:
            raise RemoteProtocolError(f"expected the result of completed task {self.id}, got none")
        try:
            return session.revision.structure(state.result, CallToolResult)
        except InvalidParams as error:
            raise RemoteProtocolError(f"the result of task {self.id}: {error.message}") from error

    async def _report(self, progress: OnProgress | None, message: str | None) -> None:
        if progress is None:
            return
        # The status of a task has no number, so the progress is the number of reports.
        self._reports += 1
        returned = progress(Progress(self._reports, None, message))
        if inspect.isawaitable(returned):
            await returned


def _pause(state: CreateTaskResult | GetTaskResult, *, is_reported: bool) -> float:
    interval = DEFAULT_POLL_SECONDS if state.poll_interval_ms is None else state.poll_interval_ms / 1000
    pause = min(max(interval, MIN_POLL_SECONDS), MAX_POLL_SECONDS)
    return max(pause, min(REPORTED_POLLS * pause, MAX_POLL_SECONDS)) if is_reported else pause
