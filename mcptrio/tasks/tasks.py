"""All tasks of a server: creates tasks for calls, claims them from the store, and finds them for their clients.

The catalog creates the object. Tools create tasks with it, the methods ``tasks/*`` find and change tasks, and the
supervisor ends them.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import inf
from typing import Any, Final

import trio
from attrs import evolve, frozen

from mcptrio.abc import TASKS_TOPIC, Bus, Stores, TaskRecord, TaskState, TaskStore, task_topic
from mcptrio.abc.status import RequestStatus
from mcptrio.errors import InternalError, InvalidParams, Overloaded, StoreFailed
from mcptrio.ground.backoff import Backoff
from mcptrio.ground.guarded import Done, Failure, run_guarded
from mcptrio.protocol.events import RequestReceived
from mcptrio.protocol.model.tasks import CreateTaskResult
from mcptrio.protocol.model.tools import CallToolParams, CallToolResult
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.runs import Channel, Run
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.state import RuntimeState
from mcptrio.stores.memory import MemoryBus, memory_stores
from mcptrio.tasks.call import load_call, new_scope, owner_of, store_call
from mcptrio.tasks.document import TaskDocument
from mcptrio.tasks.running import RunningTask

__all__ = ["TaskPolicy", "Tasks"]

_log = logging.getLogger("mcptrio.tasks")

# Seconds between two searches for queued tasks, unless a message of the bus starts one earlier.
_POLL_SECONDS: Final = 5.0
# Seconds between two deletions of expired tasks.
_EXPIRE_SECONDS: Final = 60.0
# Seconds for storing the ends of tasks when the server stops.
_FINISH_SECONDS: Final = 5.0
# Seconds for which the record outlives the deadline of its task, so that a client can read how it ended.
_GRACE_SECONDS: Final = 60.0


@frozen(kw_only=True)
class TaskPolicy:
    """How the calls of one tool become tasks.

    Args:
        ttl: Seconds from the creation to the deadline of the task.
        poll_interval: Seconds that clients should wait between two polls.
        resumable: True if another process may run the handler again from the start.
        timeout: Seconds for the call itself; ``None`` for the ttl.
        is_queued: True if the number of running calls over all processes is limited, so that each task is queued first.
    """

    ttl: float
    poll_interval: float
    resumable: bool
    timeout: float | None
    is_queued: bool


Execute = Callable[[RequestScope, CallToolParams], Awaitable[CallToolResult]]


class Tasks:
    """All tasks of a server: those that this process runs, and those in the store.

    Args:
        execute: Calls a tool for the request of a task.
        concurrency: Returns the tools whose calls may become tasks, with the number of calls that may run at the same
            time over all processes; 0 for no limit.
    """

    def __init__(
        self,
        state: RuntimeState,
        settings: ServerSettings,
        *,
        execute: Execute,
        concurrency: Callable[[], Mapping[str, int]],
    ) -> None:
        self._state = state
        self._settings = settings
        self._execute = execute
        self._concurrency = concurrency
        # A set, not a dict by id: a task that this process loses and claims again is in the set twice for a moment.
        self._running: set[RunningTask] = set()
        self.runs_here = settings.run_tasks == "here"
        """True if this process runs tasks, False if it queues them for other processes."""
        self._is_stopping = False
        self._woken = trio.Event()
        self._all_ended = trio.Event()
        self._stores: Stores | None = None
        self._is_shared = False
        state.tasks = self

    # Lifecycle

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Claim queued tasks and delete expired ones, until cancelled."""
        stores = self._state.stores
        self._is_shared = stores is not None and stores.tasks is not None and stores.bus is not None
        # Without a shared store, tasks are in memory and end with the process.
        self._stores = stores if self._is_shared else memory_stores(bus=MemoryBus())
        unfollow = self.bus.follow(TASKS_TOPIC, lambda message: self.wake())
        task_status.started()
        next_expiry = trio.current_time()
        try:
            while True:
                if self._concurrency():
                    try:
                        await self._claim_all()
                        if trio.current_time() >= next_expiry:
                            next_expiry = trio.current_time() + _EXPIRE_SECONDS
                            await self.store.expire()
                    except StoreFailed as error:
                        _log.warning("queued tasks not claimed: %s", error)
                with trio.move_on_after(self._search_interval):
                    await self._woken.wait()
                self._woken = trio.Event()
        finally:
            unfollow()

    def wake(self) -> None:
        """Look for queued tasks."""
        self._woken.set()

    def stop(self) -> None:
        """See :class:`mcptrio.runtime.long_work.LongTasks`."""
        self._is_stopping = True
        for task in list(self._running):
            # Without a shared store no other process can run the task, so it continues until the shutdown timeout.
            if task.is_movable and self._is_shared:
                task.release()

    async def finish(self) -> None:
        """See :class:`mcptrio.runtime.long_work.LongTasks`."""
        for task in list(self._running):
            task.scope.fail(InternalError("the server is stopping"))
        with trio.move_on_after(_FINISH_SECONDS):
            while self._running:
                self._all_ended = trio.Event()
                await self._all_ended.wait()

    @property
    def status(self) -> tuple[RequestStatus, ...]:
        # The prefix identifies the task; the whole id would also grant access to it.
        return tuple(evolve(task.scope.status, id=task.id[:6]) for task in self._running)

    @property
    def store(self) -> TaskStore:
        assert self._stores is not None, "the server is open"
        assert self._stores.tasks is not None, "run() has chosen stores that have tasks"
        return self._stores.tasks

    @property
    def bus(self) -> Bus:
        assert self._stores is not None, "the server is open"
        assert self._stores.bus is not None, "run() has chosen stores that have a bus"
        return self._stores.bus

    # Creating

    async def submit(
        self, scope: RequestScope, policy: TaskPolicy, params: CallToolParams | None = None
    ) -> CreateTaskResult:
        """Create a task for a call that has not begun.

        Args:
            params: The call, if it differs from that of the request.

        Raises:
            Overloaded: There are too many tasks, in total or of this principal.
            StoreFailed: The task could not be stored.
        """
        has_room = not policy.is_queued and self._has_room
        call: CallToolParams = scope.request.params if params is None else params
        document = self._document(scope, call, policy, secrets.token_urlsafe(16), has_begun=has_room)
        state = TaskState.RUNNING if has_room else TaskState.QUEUED
        record = await self._create(scope, call.name, document, state)
        if has_room:
            self._begin(record, document, self._scope_of(evolve(scope.request, params=call), scope, policy))
        return document.create_task_result(record)

    async def adopt(
        self,
        scope: RequestScope,
        policy: TaskPolicy,
        run: Run,
        channel: Channel,
        convert: Callable[[Done[Any] | Failure], CallToolResult],
    ) -> CreateTaskResult:
        """Turn a call whose handler is running into a task.

        Args:
            convert: Converts the result of the handler to the result of the call.

        Raises:
            Overloaded, StoreFailed: See :meth:`submit`. Overloaded also if the server is stopping.
        """
        if self._is_stopping:
            raise Overloaded("the server is stopping")
        call = run.journal.call or secrets.token_urlsafe(16)
        # With an id of the call, further side effects are claimed in the store, so no other process repeats them.
        run.journal = evolve(run.journal, call=call)
        run.keep = policy.ttl
        document = evolve(
            self._document(scope, scope.request.params, policy, call, has_begun=True),
            resumable=policy.resumable or scope.is_resumable,
            answers=dict(run.journal.answers),
            effects=dict(run.journal.once),
        )
        record = await self._create(scope, scope.request.params.name, document, TaskState.RUNNING)
        task_scope = self._scope_of(scope.request, scope, policy)
        task_scope.label, task_scope.owner, task_scope.memory = scope.label, scope.owner, scope.memory
        if policy.timeout is not None:
            task_scope.begin(max(0.001, scope.deadline - trio.current_time()))
        channel.scope = task_scope
        run.work.scope = task_scope
        task = self._add(record, document, task_scope)
        if scope.is_resumable:
            # The handler may have become resumable while the record was being created.
            task.note_resumable()
        task.adopt(run)

        async def finish() -> CallToolResult:
            await task.watch(run)
            return convert(run.result())

        self._state.start(self._run, task, finish)
        return document.create_task_result(record)

    # For clients

    async def find(self, scope: RequestScope, id: str) -> TaskRecord:
        """Return a task of the principal that sends a request.

        Raises:
            InvalidParams: There is no such task, or it belongs to another principal.
        """
        record = await self.store.load(id)
        if record is None or record.owner != owner_of(scope):
            raise InvalidParams(
                f"taskId: no task with this id, or it has expired or belongs to another user: {id[:100]!r}"
            )
        return record

    def follow(self, id: str, receive: Callable[[bytes | None], None]) -> Callable[[], None]:
        """Call ``receive`` after each change to a task. Return a function that removes the follower."""
        return self.bus.follow(task_topic(id), receive)

    async def answer(self, scope: RequestScope, id: str, responses: Mapping[str, object]) -> None:
        """Store the answers to open questions, and ignore all others."""
        while True:
            record = await self.find(scope, id)
            document = TaskDocument.decode(record.data)
            answers = {key: responses[key] for key in document.questions if key in responses}
            if not answers or record.state is TaskState.ENDED:
                return
            questions = {key: wire for key, wire in document.questions.items() if key not in answers}
            changed = evolve(
                document,
                answers={**document.answers, **answers},
                questions=questions,
                status="input_required" if questions else "working",
                updated=time.time(),
            )
            if await self.store.save(evolve(record, data=changed.encode())) is not None:
                return

    async def cancel(self, scope: RequestScope, id: str) -> bool:
        """Cancel a task: the process that runs it cancels the handler, and a queued task ends at once.

        Returns:
            False if the task has ended or was cancelled before.
        """
        while True:
            record = await self.find(scope, id)
            document = TaskDocument.decode(record.data)
            if record.state is TaskState.ENDED or document.is_cancelled:
                return False
            changed: TaskDocument = evolve(document, is_cancelled=True)
            state: TaskState = record.state
            if state is TaskState.QUEUED:
                state = TaskState.ENDED
                changed = evolve(
                    changed,
                    status="cancelled",
                    message="the client has cancelled the task",
                    # No longer needed, and the record must stay below its limit.
                    request={},
                    answers={},
                    effects={},
                    questions={},
                    updated=time.time(),
                )
            if await self.store.save(evolve(record, data=changed.encode(), state=state)) is not None:
                return True

    def cancel_here(self, prefix: str, reason: str) -> bool:
        """Cancel a task that this process runs. See :meth:`mcptrio.Server.cancel_task`."""
        tasks = [task for task in self._running if task.id[:6] == prefix]
        for task in tasks:
            task.scope.cancel(reason)
        return bool(tasks)

    # Private

    @property
    def _search_interval(self) -> float:
        """Seconds until the next search for queued and expired tasks."""
        if not self._concurrency():
            return inf
        return _POLL_SECONDS if self._is_shared else _EXPIRE_SECONDS

    @property
    def _has_room(self) -> bool:
        return self.runs_here and not self._is_stopping and len(self._running) < self._settings.limits.tasks

    def _document(
        self, scope: RequestScope, params: CallToolParams, policy: TaskPolicy, call: str, *, has_begun: bool
    ) -> TaskDocument:
        return TaskDocument(
            request=store_call(scope, params),
            resumable=policy.resumable,
            has_begun=has_begun,
            call=call,
            ttl=policy.ttl,
            poll_interval=policy.poll_interval,
        )

    async def _create(self, scope: RequestScope, tool: str, document: TaskDocument, state: TaskState) -> TaskRecord:
        record = TaskRecord(
            # Only the id protects a task of an anonymous client. It is in hexadecimal, because a shell command would
            # read a hyphen at the beginning as an option.
            id=secrets.token_hex(16),
            owner=owner_of(scope),
            tool=tool,
            state=state,
            data=document.encode(),
        )
        record = await self.store.create(record, keep=document.ttl + _GRACE_SECONDS)
        scope.on_lost_result = partial(self._start_abandoning, scope, record.id, document.ttl)
        return record

    def _start_abandoning(self, scope: RequestScope, id: str, ttl: float) -> None:
        # A server that is stopping ends its tasks itself.
        if not self._is_stopping:
            self._state.start(self._abandon, scope, id, ttl)

    async def _abandon(self, scope: RequestScope, id: str, ttl: float) -> None:
        """Cancel a task whose client disconnected before it received the id. No client could answer its questions."""
        _log.info("task cancelled, because its client disconnected before it received the id: task=%s", id[:6])
        backoff = Backoff(0.2, 5.0)
        with trio.move_on_after(ttl):
            while True:
                try:
                    await self.cancel(scope, id)
                    return
                except InvalidParams:
                    return  # The task has expired.
                except StoreFailed as error:
                    _log.warning("task not cancelled, trying again: task=%s: %s", id[:6], error)
                    await trio.sleep(backoff.next_pause())

    def _scope_of(self, request: RequestReceived, scope: RequestScope, policy: TaskPolicy) -> RequestScope:
        return new_scope(
            request,
            scope.principal,
            scope.caller,
            settings=self._settings,
            deadlines=self._state.deadlines,
            ttl=policy.ttl,
        )

    def _begin(self, record: TaskRecord, document: TaskDocument, scope: RequestScope) -> None:
        task = self._add(record, document, scope)
        self._state.start(self._run, task, partial(self._execute, scope, scope.request.params))

    def _add(self, record: TaskRecord, document: TaskDocument, scope: RequestScope) -> RunningTask:
        task = RunningTask(record, document, scope, self.store, self.bus)
        self._running.add(task)
        if self._is_stopping and task.is_movable and self._is_shared:
            # The task was created or claimed after stop() had released the others.
            task.release()
        return task

    async def _run(self, task: RunningTask, work: Callable[[], Awaitable[CallToolResult]]) -> None:
        try:
            outcome = await run_guarded(task.run, work, self._state.deadlines)
            if isinstance(outcome, Failure):
                # A bug in mcptrio. The store queues the task again when this process has ended.
                _log.error("task failed unexpectedly: task=%s", task.id[:6], exc_info=outcome.error)
            elif not task.is_lost and not task.is_released:
                self._state.observers.task_ended(task.id[:6], task.scope, outcome.value)
        finally:
            self._running.remove(task)
            self._all_ended.set()
            self.wake()

    async def _claim_all(self) -> None:
        while self._has_room:
            record = await self.store.claim(self._concurrency())
            if record is None:
                return
            await self._run_claimed(record)

    async def _run_claimed(self, record: TaskRecord) -> None:
        """Run a claimed task, or end it if its handler must not run again."""
        try:
            document = TaskDocument.decode(record.data)
            request, principal, caller = load_call(document.request, record.id)
        except (ValueError, KeyError, InvalidParams) as error:
            _log.error(
                "task not run, because another version of mcptrio has stored it: task=%s: %s", record.id[:6], error
            )
            return
        remaining_seconds = (
            record.expires - time.time() - _GRACE_SECONDS if record.expires is not None else document.ttl
        )
        scope = new_scope(
            request,
            principal,
            caller,
            settings=self._settings,
            deadlines=self._state.deadlines,
            ttl=max(0.001, remaining_seconds),
        )
        if document.has_begun and not document.resumable:
            scope.fail(InternalError("the process that ran this task has ended, and the tool cannot be resumed"))
        elif document.is_cancelled:
            scope.cancel("the client has cancelled the task")
        self._begin(record, document, scope)
