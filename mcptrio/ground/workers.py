"""Worker tasks, each of which runs one request after another, each request in its own ``contextvars`` context.

The session of a channel has its own workers in its nursery. Sessions over HTTP, of which there may be thousands with
few busy, share the supervisor's. A Trio task and a cancel scope cost more than most calls, so both are reused. No
request waits for another: if one waits, an idle or new worker is about to run it. A worker whose scope was cancelled is
discarded. The workers of the HTTP engine use :class:`ContextRunner` too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Protocol

import trio

from mcptrio.ground.waiter import Waiter

__all__ = ["ContextRunner", "Serving", "Workers"]

IDLE = 64
"""Workers that stay when there is nothing to do; further ones end."""


class ContextRunner(Generator[Any, Any, None]):
    """Awaitable that runs a coroutine in its own context, in the current task.

    A variable that one request sets is not visible to the next request of the same worker.
    """

    def __init__(self, context: Context, work: Coroutine[Any, Any, None]) -> None:
        self._context = context
        self._work = work

    def __await__(self) -> Generator[Any, Any, None]:
        return self

    def send(self, value: Any) -> Any:
        # Entered for each step, because a context cannot stay entered while the task is suspended.
        return self._context.run(self._work.send, value)

    def throw(self, *error: Any) -> Any:
        return self._context.run(self._work.throw, *error)

    def close(self) -> None:
        self._context.run(self._work.close)


class WorkerRequest(Protocol):
    """A request from the view of its workers."""

    def attach_cancel_scope(self, cancel_scope: trio.CancelScope, /) -> bool:
        """Begin the request within this scope. Returns whether to run its handler."""
        ...


class Serving(Protocol):
    """A session from the view of its workers."""

    async def serve(self, scope: Any) -> None:
        """Run the handler of a request."""
        ...

    async def finish(self, scope: Any) -> None:
        """Send the answer and release the request. Does not raise."""
        ...

    def release(self, scope: Any) -> None:
        """Release the request; does nothing the second time."""
        ...


class Workers:
    """The worker tasks of one owner, which serve requests one after another.

    Args:
        start: Starts a worker in the nursery of the owner.
    """

    def __init__(self, start: Callable[..., None]) -> None:
        self._start = start
        self._waiting: deque[tuple[Serving, WorkerRequest, Context]] = deque()
        self._idle: list[Waiter[None]] = []
        """Idle workers; the last busy one is used first, because its data is still in the processor's caches."""
        self._coming = False
        """Whether a worker was called and has not run yet."""
        self._closed = False

    def put(self, session: Serving, scope: WorkerRequest) -> None:
        """Have a request served, in the context of the caller."""
        # The context variables of the caller, such as those of a tracing library, must be visible to the handler.
        self._waiting.append((session, scope, copy_context()))
        self._call()

    def close(self) -> None:
        """End idle workers, because no more requests follow."""
        self._closed = True
        while self._idle:
            self._idle.pop().set(None)

    def _call(self) -> None:
        if self._coming:
            return
        self._coming = True
        while self._idle:
            if self._idle.pop().set(None):
                return
        self._start(self._work)

    async def _work(self) -> None:
        current: tuple[Serving, WorkerRequest] | None = None
        context: Context | None
        try:
            with trio.CancelScope() as cancel_scope:
                while True:
                    self._coming = False
                    while self._waiting:
                        session, scope, context = self._waiting.popleft()
                        current = session, scope
                        if self._waiting:
                            # If this request takes long, another worker serves the next one; otherwise that worker
                            # finds nothing and stays idle.
                            self._call()
                        if scope.attach_cancel_scope(cancel_scope):
                            await ContextRunner(context, session.serve(scope))
                        # A cancelled scope cannot be used again, so this worker ends after the request.
                        if cancel_scope.cancel_called:
                            break
                        await session.finish(scope)
                        current = None
                    if current is not None or self._closed or len(self._idle) >= IDLE:
                        break
                    # An idle worker must not keep the last request in memory.
                    session = scope = context = None  # type: ignore[assignment]
                    await self._rest()
            if self._waiting:
                self._call()
            if current is not None:
                await current[0].finish(current[1])
        finally:
            if current is not None:
                current[0].release(current[1])

    async def _rest(self) -> None:
        """Wait for a request."""
        waiter: Waiter[None] = Waiter()
        self._idle.append(waiter)
        await waiter.wait()
