"""One ``subscriptions/listen`` stream for all tasks that a client follows.

Client owns one TaskListener. A ClientTask waits for its next state with it, and polls if the server does not report the
task. Notifications may be lost, so a reported task is polled too, with longer pauses.

Source: MCP extension io.modelcontextprotocol/tasks, 2026-07-28, "Task Status Notifications".
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from math import inf
from typing import Any, Final, cast

import trio
from attrs import asdict, define, field

from mcptrio.client.subscriber import Subscriber
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.errors import MCPError, MCPTrioError
from mcptrio.ground.backoff import Backoff
from mcptrio.protocol.model.subscriptions import SubscriptionFilter
from mcptrio.protocol.model.tasks import GetTaskResult, TaskParams
from mcptrio.protocol.revisions.revision import ChangeDelivery

__all__ = ["FollowedTask", "TaskListener"]

_log = logging.getLogger("mcptrio.client.task_listener")

MAX_TASKS: Final = 100
"""Tasks in one stream. Further ones are polled until others have ended."""
GATHER_SECONDS: Final = 0.05
"""Seconds before a stream is opened, so that calls that begin together share it."""
REOPEN_SECONDS: Final = 1.0
"""Seconds between two streams. The server reports each task again on each of them."""


@define(eq=False)
class FollowedTask:
    """One task that a caller waits for."""

    is_reported: bool = False
    """True while the server has agreed to report changes of the task."""
    _unread_state: GetTaskResult | None = None
    _changed: trio.Event = field(factory=trio.Event)

    async def next(self, end: float) -> GetTaskResult | None:
        """Return the next reported state; ``None`` at ``end`` (Trio clock) or if :attr:`is_reported` changes."""
        with trio.move_on_at(end):
            await self._changed.wait()
        self._changed = trio.Event()
        unread_state, self._unread_state = self._unread_state, None
        return unread_state

    # For the listener

    def update(self, state: GetTaskResult) -> None:
        # An unread state is replaced, because each state is complete.
        self._unread_state = state
        self._changed.set()

    def set_reported(self, is_reported: bool) -> None:
        if is_reported != self.is_reported:
            self.is_reported = is_reported
            self._changed.set()


class TaskListener:
    """The followed tasks of one client, and the stream that reports them."""

    def __init__(self, supervisor: ClientSupervisor, subscriber: Subscriber) -> None:
        self._supervisor = supervisor
        self._subscriber = subscriber
        self._followed: dict[str, list[FollowedTask]] = {}
        """The waiting callers, by task id. Several may wait for the same task."""
        self._changed = trio.Event()
        self._is_running = False
        self._not_before = -inf
        """Trio clock time before which no stream is opened."""
        self._backoff = Backoff(REOPEN_SECONDS)
        self._refused: int | None = None
        """The generation of the session whose server has refused the stream."""

    @contextmanager
    def following(self, id: str) -> Iterator[FollowedTask]:
        """Follow a task inside the context."""
        task = FollowedTask()
        self._followed.setdefault(id, []).append(task)
        self._note_change()
        try:
            yield task
        finally:
            self._followed[id].remove(task)
            if not self._followed[id]:
                del self._followed[id]
            self._note_change()

    def listen(self) -> None:
        """Start opening the stream, unless it is open or the server has refused it. Does not block."""
        session = self._supervisor.last_session
        if self._is_running or session is None or self._refused == self._supervisor.generation:
            return
        if session.revision.changes is ChangeDelivery.LISTEN_STREAM and trio.current_time() >= self._not_before:
            session.start_soon(self._run)

    def handle(self, params: object) -> None:
        """Pass a notification on if it reports a followed task."""
        if not isinstance(params, TaskParams) or params.task_id not in self._followed:
            return
        members: dict[str, Any] = asdict(cast("Any", params), recurse=False)
        members.pop("meta")
        state = GetTaskResult(**members)
        for task in self._followed[params.task_id]:
            task.update(state)

    # Private

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _run(self) -> None:
        """Keep a stream open while tasks are followed. After an error, the next poll of a task opens it again."""
        if self._is_running:
            return
        self._is_running = True
        generation = self._supervisor.generation
        try:
            await trio.sleep(GATHER_SECONDS)
            while self._followed:
                self._not_before = trio.current_time() + REOPEN_SECONDS
                await self._report(tuple(islice(self._followed, MAX_TASKS)))
        except MCPError as error:
            self._refused = generation
            _log.info("tasks are polled, because the server does not report them: %s", error)
        except MCPTrioError as error:
            self._not_before = trio.current_time() + self._backoff.next_pause()
            _log.info("event stream of tasks failed: %s", error)
        finally:
            self._is_running = False
            self._mark(())

    async def _report(self, ids: tuple[str, ...]) -> None:
        """Keep one stream open until it lacks a followed task, or no task is left.

        Raises:
            MCPError: The server reports none of the tasks.
            MCPTrioError: There was no answer.
        """
        async with self._subscriber.open(SubscriptionFilter(task_ids=ids)) as changes:
            self._backoff.reset()
            assert changes.honoured is not None, "the stream has been acknowledged"
            self._mark(changes.honoured.task_ids)
            while self._followed and set(islice(self._followed, MAX_TASKS)) <= set(ids):
                await self._changed.wait()
            # Until the next stream may be opened, this one still reports its tasks.
            with trio.move_on_at(max(self._not_before, trio.current_time() + GATHER_SECONDS)):
                while self._followed:
                    await self._changed.wait()

    def _mark(self, reported: tuple[str, ...]) -> None:
        for id, tasks in self._followed.items():
            for task in tasks:
                task.set_reported(id in reported)
