"""Runs the lifespan of a plugin and its background tasks in one task, while the server is open.

The server enters lifespans in the order of registration and leaves them in reverse, so a lifespan can use earlier ones.
Each is entered and left in the same task, so it may contain nurseries and cancel scopes. If a lifespan fails, only this
lifespan and its own background tasks end.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack
from typing import Any

import trio

from mcptrio.abc.tracing import trace_step
from mcptrio.ground.guarded import Done, Failure, run_guarded
from mcptrio.runtime.background import keep_running

__all__ = ["Lifespan"]

_log = logging.getLogger("mcptrio.lifespans")

CLOSE_TIMEOUT = 1.0
"""Seconds for a lifespan to end after its cancellation."""


class Lifespan:
    """The lifespan of one plugin.

    Args:
        label: The plugin, for messages.
        managers: The context managers of the plugin, entered in this order.
        tasks: Returns the background tasks. Its argument is a list of the values that the managers yielded.
        opened: A function called when the lifespan is open, before the tasks run. It must not raise.
        failed: A function called with the lifespan and the exception, if the lifespan fails after it was opened.
    """

    def __init__(
        self,
        label: str,
        managers: Sequence[AbstractAsyncContextManager[Any]],
        *,
        tasks: Callable[[list[Any]], Sequence[Callable[[], Awaitable[None]]]],
        opened: Callable[[Lifespan], None],
        failed: Callable[[Lifespan, BaseException], None],
    ) -> None:
        self._label = label
        self._managers = managers
        self._tasks = tasks
        self._opened = opened
        self._failed = failed
        self._scope = trio.CancelScope()
        self._is_open = False
        self._leave = trio.Event()
        self._left = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[Done[None] | Failure] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the lifespan open until :meth:`leave`. Reports ``started`` when it is open or has failed."""

        async def enter_and_leave() -> None:
            with ExitStack() as last:
                async with AsyncExitStack() as stack:
                    with trace_step("start plugin", self._label):
                        states = [await stack.enter_async_context(manager) for manager in self._managers]
                    await self._stay_open(states, task_status)
                    last.enter_context(trace_step("stop plugin", self._label))

        outcome: Done[None] | Failure | None = None
        try:
            with self._scope:
                outcome = await run_guarded(enter_and_leave)
        finally:
            self._left.set()
        if self._scope.cancelled_caught:
            _log.error("%s: lifespan cancelled, its end exceeded the shutdown timeout", self._label)
        elif isinstance(outcome, Failure) and not self._is_open:
            task_status.started(outcome)
        elif isinstance(outcome, Failure):
            self._failed(self, outcome.error)
        elif not self._leave.is_set():
            self._failed(self, RuntimeError("it ended while the server is open"))

    async def _stay_open(self, states: list[Any], task_status: trio.TaskStatus[Done[None] | Failure]) -> None:
        """Run the background tasks until :meth:`leave`."""
        async with trio.open_nursery() as nursery:
            for task in self._tasks(states):
                nursery.start_soon(keep_running, task, self._label)
            # If the start was cancelled, Trio would ignore started(), and nothing would call leave().
            await trio.lowlevel.checkpoint_if_cancelled()
            # A cancellation of the server ends the requests first; leave() ends the lifespan afterwards.
            self._scope.shield = True
            self._is_open = True
            self._opened(self)
            task_status.started(Done(None))
            await self._leave.wait()
            nursery.cancel_scope.cancel()

    async def leave(self, deadline: float) -> None:
        """Stop the background tasks and leave the lifespan. It is cancelled at ``deadline``, in Trio clock time."""
        self._scope.deadline = deadline
        self._leave.set()
        with trio.move_on_at(deadline + CLOSE_TIMEOUT) as scope:
            await self._left.wait()
        if scope.cancelled_caught:
            # The plugin shields itself. The server goes on with the lifespans that were entered before this one.
            _log.error("%s: lifespan left running, it did not end after its cancellation", self._label)
