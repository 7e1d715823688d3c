"""One task that this process runs.

:class:`mcptrio.tasks.tasks.Tasks` starts it in the nursery of the server. It writes the questions, the status and the
result of the handler into the store, and reads the client's answers and cancellations from the store.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import inf
from typing import Any, Final

import trio
from attrs import evolve

from mcptrio.abc import Bus, TaskRecord, TaskState, TaskStore, task_topic
from mcptrio.abc.tracing import TraceOutcome, trace_work
from mcptrio.errors import InternalError, MCPError, Overloaded, StoreFailed
from mcptrio.ground.backoff import Backoff
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.guarded import Done, Failure, run_guarded
from mcptrio.ground.tracebacks import log_failure
from mcptrio.protocol.messages import ErrorResponse
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.runs import Run
from mcptrio.tasks.call import TRACE
from mcptrio.tasks.document import TaskDocument

__all__ = ["RunningTask"]

_log = logging.getLogger("mcptrio.tasks")

# Seconds between two changes of the status text in the store.
_STATUS_INTERVAL: Final = 1.0
# Characters of a status text.
_MAX_STATUS_CHARS: Final = 1_000

_Change = Callable[[TaskDocument], TaskDocument]


class RunningTask:
    """See :class:`mcptrio.runtime.long_work.LongWork`.

    Args:
        record: The record of the task, which this process holds.
        scope: The request that the handler serves.
        bus: Announces changes by other processes.
    """

    def __init__(
        self, record: TaskRecord, document: TaskDocument, scope: RequestScope, store: TaskStore, bus: Bus
    ) -> None:
        self.scope = scope
        self._trace = document.request.get(TRACE, {})
        self._is_resumable = document.resumable
        self._has_begun = document.has_begun
        self.call = document.call
        self.keep = document.ttl
        self.effects = document.effects
        self.latest: float | None = None
        """See :class:`mcptrio.runtime.progress.ProgressSink`."""
        self.total: float | None = None
        self._record = record
        self._answers = document.answers
        self._store = store
        self._bus = bus
        self._run: Run | None = None
        self._questions: dict[str, Any] = dict(document.questions)
        self._inherited_questions = dict(document.questions)
        """Open questions of a process that ran the task before, until the handler asks them again."""
        self._status: str | None = None
        self._is_stale = False
        """True if another process may have changed the record."""
        self._is_unsaved = False
        """True if the store lacks a change other than the status text."""
        self._status_due = inf
        """Trio clock time at which the status text must be stored; ``inf`` if it is stored."""
        self._status_stored = -inf
        """Trio clock time at which the status text was last stored."""
        self._woken = trio.Event()
        self.is_lost = False
        """True if this process no longer holds the task, because it expired or another process runs it."""
        self.is_released = False
        """True once this process gives the task back, so that another process can run it."""
        scope.task = self
        scope.progress = self

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def answers(self) -> Mapping[str, Any]:
        return self._answers

    @property
    def is_movable(self) -> bool:
        """True if another process may run the task from the start."""
        return self._is_resumable or not self._has_begun

    # Lifecycle

    async def run(
        self, work: Callable[[], Awaitable[CallToolResult]], deadlines: Deadlines
    ) -> Done[CallToolResult] | Failure | None:
        """Run the call, and store its result or error.

        Returns:
            The result of the handler; ``None`` if the handler was cancelled.
        """
        outcome: Done[CallToolResult] | Failure | None = None
        unfollow = self._bus.follow(task_topic(self.id), self._note_change)
        if self._record.generation > 1:
            # A client may have changed a claimed task before this process followed its topic.
            self._note_change(None)
        deadlines.add(self.scope)
        try:
            with trio.CancelScope() as cancel_scope:
                if self.scope.attach_cancel_scope(cancel_scope):
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._synchronize)
                        await self._begin()
                        with trace_work(self.scope, self._trace) as traced:
                            outcome = await run_guarded(work)
                            _trace_outcome(outcome, traced)
                        nursery.cancel_scope.cancel()
                elif self._run is not None:
                    self._run.cancel(self._cancel_reason)
        finally:
            deadlines.discard(self.scope)
            unfollow()
        self.scope.finish()
        self.scope.close()
        if not self.is_lost:
            await self._store_end(outcome)
        return outcome

    def adopt(self, run: Run) -> None:
        """Use a handler that is already running."""
        self._run = run
        run.keep = self.keep

    def release(self) -> None:
        """Stop, and let another process run the task from the start."""
        self.is_released = True
        self.scope.cancel("the server is stopping")

    # For the handler

    async def watch(self, run: Run) -> None:
        """See :class:`mcptrio.runtime.long_work.LongWork`."""
        self.adopt(run)
        try:
            while not run.has_ended:
                self._deliver_answers()
                self._publish_questions(run)
                if not run.has_ended:
                    await run.wait_changed()
        except trio.Cancelled:
            run.cancel(self._cancel_reason)
            raise
        finally:
            self._run = None

    def note_resumable(self) -> None:
        """See :class:`mcptrio.runtime.long_work.LongWork`."""
        if not self._is_resumable:
            self._is_resumable = self._is_unsaved = True
            self._woken.set()

    def set_status(self, message: str) -> None:
        """See :class:`mcptrio.runtime.long_work.LongWork`."""
        self._status = message[:_MAX_STATUS_CHARS]
        if self._status_due == inf:
            self._status_due = max(trio.current_time(), self._status_stored + _STATUS_INTERVAL)
            self._woken.set()

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """See :class:`mcptrio.runtime.progress.ProgressSink`."""
        if self.latest is not None and progress <= self.latest:
            return
        self.latest, self.total = progress, total
        amount = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self.set_status(f"{message} ({amount})" if message else amount)

    def flush(self) -> None:
        """See :class:`mcptrio.runtime.progress.ProgressSink`. The end of the task has the newest status text."""

    # Private

    @property
    def _cancel_reason(self) -> str:
        """The reason for which the handler is cancelled."""
        error = self.scope.error
        return self.scope.reason or (error.message if error is not None else "the server is stopping")

    def _note_change(self, message: bytes | None) -> None:
        self._is_stale = True
        self._woken.set()

    async def _begin(self) -> None:
        """Store that the handler has begun, before it begins, if the task cannot be resumed."""
        backoff = Backoff(0.2, 5.0)
        while self.is_movable and not self._is_resumable:
            try:
                await self._save(partial(evolve, has_begun=True), TaskState.RUNNING)
                await trio.lowlevel.checkpoint_if_cancelled()
                self._has_begun = True
            except StoreFailed as error:
                _log.warning("task start delayed, the store failed: task=%s: %s", self.id[:6], error)
                await trio.sleep(backoff.next_pause())

    async def _synchronize(self) -> None:
        """Exchange changes between the record and the handler until cancelled."""
        backoff = Backoff(0.2, 5.0)
        while True:
            with trio.move_on_at(self._status_due):
                await self._woken.wait()
            self._woken = trio.Event()
            try:
                if self._is_stale:
                    await self._reload()
                if self._is_unsaved or self._status_due <= trio.current_time():
                    self._is_unsaved, self._status_due, self._status_stored = False, inf, trio.current_time()
                    await self._save(self._with_progress, TaskState.RUNNING)
                    self._deliver_answers()
                backoff.reset()
            except Overloaded as error:
                # The data are too large, so the client would never see the question.
                self.scope.fail(error)
            except StoreFailed as error:
                _log.warning("task state not stored, trying again: task=%s: %s", self.id[:6], error)
                self._is_unsaved = True
                self._woken.set()
                await trio.sleep(backoff.next_pause())

    async def _reload(self) -> None:
        self._is_stale = False
        record = await self._store.load(self.id)
        if record is None or not self._is_held(record):
            self._note_lost()
            return
        self._record = record
        document = TaskDocument.decode(record.data)
        self._answers = document.answers
        if document.is_cancelled:
            self.scope.cancel("the client has cancelled the task")
        self._deliver_answers()

    def _is_held(self, record: TaskRecord) -> bool:
        return record.state is TaskState.RUNNING and record.fence == self._record.fence

    def _note_lost(self) -> None:
        _log.warning(
            "task lost, another process holds it or it has expired: task=%s tool=%s", self.id[:6], self._record.tool
        )
        self.is_lost = True
        self.scope.cancel("the task has expired, or another process runs it")

    def _deliver_answers(self) -> None:
        """Pass the answers to its open questions to the handler."""
        run = self._run
        for key in list(run.open) if run is not None else ():
            assert run is not None
            if key not in self._answers or key not in run.open:
                continue
            raw = self._answers[key]
            try:
                answer = run.channel.read(run.open[key].question, raw)
            except MCPError as error:
                run.fail(error)
            else:
                run.answer(key, raw, answer)

    def _publish_questions(self, run: Run) -> None:
        """Store the open questions for the client, if they have changed."""
        unstructure = self.scope.request.peer.revision.unstructure
        # While a side effect is running, new questions wait for its result.
        open_questions = run.open if run.asks else {key: run.open[key] for key in self._questions if key in run.open}
        for key in open_questions:
            self._inherited_questions.pop(key, None)
        # A client answers a question once, so an answer to an inherited question must be stored even before the handler
        # has asked it again.
        questions = self._inherited_questions | {
            key: unstructure(question.wire) for key, question in open_questions.items()
        }
        if questions != self._questions:
            self._questions = questions
            self._is_unsaved = True
            self._woken.set()

    def _with_progress(self, document: TaskDocument) -> TaskDocument:
        questions = {key: wire for key, wire in self._questions.items() if key not in document.answers}
        return evolve(
            document,
            resumable=self._is_resumable,
            status="input_required" if questions else "working",
            questions=questions,
            message=document.message if self._status is None else self._status,
            updated=time.time(),
        )

    async def _save(self, change: _Change, state: TaskState) -> None:
        """Apply a change to the record; apply it again if another process changed the record meanwhile.

        Raises:
            StoreFailed, Overloaded: See :class:`mcptrio.abc.TaskStore`.
        """
        while True:
            document = change(TaskDocument.decode(self._record.data))
            saved = await self._store.save(evolve(self._record, data=document.encode(), state=state), held=True)
            if saved is None:
                saved = await self._store.load(self.id)
                if saved is None or not self._is_held(saved):
                    self._note_lost()
                    return
                self._record = saved
                continue
            self._record = saved
            self._answers = document.answers
            return

    async def _store_end(self, outcome: Done[CallToolResult] | Failure | None) -> None:
        state = TaskState.QUEUED if self.is_released and outcome is None else TaskState.ENDED
        change = self._queueing_change if state is TaskState.QUEUED else self._ending_change(outcome)
        is_replaced = False
        backoff = Backoff(0.2, 5.0)
        while True:
            try:
                await self._save(change, state)
                return
            except Overloaded as error:
                if is_replaced:
                    _log.error("task end not stored: task=%s: %s", self.id[:6], error)
                    return
                # The result is too large for the store, so the task fails with that reason.
                is_replaced = True
                change = self._ending_change(Failure(error))
            except StoreFailed as error:
                _log.warning("task end not stored, trying again: task=%s: %s", self.id[:6], error)
                await trio.sleep(backoff.next_pause())

    def _queueing_change(self, document: TaskDocument) -> TaskDocument:
        return evolve(document, has_begun=self._has_begun, resumable=self._is_resumable)

    def _ending_change(self, outcome: Done[CallToolResult] | Failure | None) -> _Change:
        """Return the change that stores the end of the task in its record."""
        revision = self.scope.request.peer.revision
        # No process runs the call again, so its parameters and answers make room for the result. The revision is kept:
        # the result is in its wire form.
        request = {"revision": revision.version}
        common: dict[str, Any] = {"request": request, "answers": {}, "effects": {}, "questions": {}}
        common["updated"] = time.time()
        if self._status is not None:
            common["message"] = self._status
        if isinstance(outcome, Done):
            result = revision.unstructure(outcome.value)
            return lambda document: evolve(document, status="completed", result=result, **common)
        error = self.scope.error
        if isinstance(outcome, Failure):
            error = outcome.error if isinstance(outcome.error, MCPError) else self._internal_error(outcome.error)
        if error is None:
            common["message"] = self.scope.reason
            return lambda document: evolve(document, status="cancelled", **common)
        response = ErrorResponse.of(None, error)
        wire = {"code": revision.codes.get(response.code, response.code), "message": response.message}
        if response.data is not None:
            wire["data"] = response.data
        common["message"] = error.message
        return lambda document: evolve(document, status="failed", error=wire, **common)

    def _internal_error(self, error: BaseException) -> MCPError:
        # The client gets only an id: the text of an exception may contain secrets.
        failure_id = log_failure(_log, error, "task of %s failed", self._record.tool)
        return InternalError(f"internal error in {self._record.tool}: see id {failure_id} in the server's log")


def _trace_outcome(outcome: Done[CallToolResult] | Failure, traced: TraceOutcome) -> None:
    if isinstance(outcome, Failure):
        traced.error = outcome.error
    else:
        traced.is_tool_error = bool(outcome.value.is_error)
