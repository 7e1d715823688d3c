"""Worker tasks that run requests one after another, each request in its own ``contextvars`` context.

A Trio task and a cancel scope cost more than most calls, so both are reused; a worker whose scope was cancelled ends.
No request waits for another one to end: an idle or new worker runs it. A session on a channel has its own workers, in
its nursery. Sessions over HTTP share those of the supervisor, because there may be thousands of sessions, few of them
busy. The workers of the HTTP engine use only :class:`ContextRunner`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Protocol

import trio

from mcptrio.ground.waiter import Waiter

__all__ = ["ContextRunner", "WorkerSession", "Workers"]

MAX_IDLE = 64
"""Idle workers that are kept; further ones end."""


class ContextRunner(Generator[Any, Any, None]):
    """An awaitable that runs a coroutine in its own context, in the current task.

    A context variable that one request sets is therefore not visible to the next request of the same worker.
    """

    def __init__(self, context: Context, work: Coroutine[Any, Any, None]) -> None:
        self._context = context
        self._work = work

    def __await__(self) -> Generator[Any, Any, None]:
        return self

    def send(self, value: Any) -> Any:
        # The context is entered for each step, because it cannot stay entered while the task is suspended.
        return self._context.run(self._work.send, value)

    def throw(self, *error: Any) -> Any:
        return self._context.run(self._work.throw, *error)

    def close(self) -> None:
        self._context.run(self._work.close)


class WorkerRequest(Protocol):
    """The interface of a request that a worker runs."""

    def attach_cancel_scope(self, cancel_scope: trio.CancelScope, /) -> bool:
        """Begin the request within this scope. Returns False if it was cancelled, so that its handler must not run."""
        ...


class WorkerSession(Protocol):
    """The interface of a session whose requests a worker runs."""

    async def serve(self, scope: Any) -> None:
        """Run the handler of a request."""
        ...

    async def finish(self, scope: Any) -> None:
        """Send the answer and release the request. Does not raise."""
        ...

    def release(self, scope: Any) -> None:
        """Release the request. A second call does nothing."""
        ...


class Workers:
    """The worker tasks of one owner.

    Args:
        start: Starts a worker task in the nursery of the owner.
    """

    def __init__(self, start: Callable[..., None]) -> None:
        self._start = start
        self._waiting: deque[tuple[WorkerSession, WorkerRequest, Context]] = deque()
        self._idle: list[Waiter[None]] = []
        """Idle workers. The last busy one is used first, because its data is still in the processor's caches."""
        self._is_waking = False
        """True while a worker that was woken or started has not run yet."""
        self._closed = False

    def put(self, session: WorkerSession, scope: WorkerRequest) -> None:
        """Pass a request to a worker."""
        # The context variables of the caller, such as those of a tracing library, must be visible to the handler.
        self._waiting.append((session, scope, copy_context()))
        self._wake_worker()

    def close(self) -> None:
        """End idle workers, because no more requests follow."""
        self._closed = True
        while self._idle:
            self._idle.pop().set(None)

    def _wake_worker(self) -> None:
        if self._is_waking:
            return
        self._is_waking = True
        while self._idle:
            # False if that worker was cancelled.
            if self._idle.pop().set(None):
                return
        self._start(self._run_worker)

    async def _run_worker(self) -> None:
        current: tuple[WorkerSession, WorkerRequest] | None = None
        context: Context | None
        try:
            with trio.CancelScope() as cancel_scope:
                while True:
                    self._is_waking = False
                    while self._waiting:
                        session, scope, context = self._waiting.popleft()
                        current = session, scope
                        if self._waiting:
                            # Another worker must serve the next request if this one takes long. If it does not, that
                            # worker finds an empty queue.
                            self._wake_worker()
                        if scope.attach_cancel_scope(cancel_scope):
                            await ContextRunner(context, session.serve(scope))
                        # A cancelled scope cannot be used again, so this worker finishes the request and ends.
                        if cancel_scope.cancel_called:
                            break
                        await session.finish(scope)
                        current = None
                    if current is not None or self._closed or len(self._idle) >= MAX_IDLE:
                        break
                    # An idle worker must not keep the last request in memory.
                    session = scope = context = None  # type: ignore[assignment]
                    await self._wait_for_request()
            if self._waiting:
                self._wake_worker()
            if current is not None:
                await current[0].finish(current[1])
        finally:
            if current is not None:
                current[0].release(current[1])

    async def _wait_for_request(self) -> None:
        waiter: Waiter[None] = Waiter()
        self._idle.append(waiter)
        await waiter.wait()
