"""The tasks of a session that serve its requests, each one request after another.

Owned by the session, in its nursery. A task of trio and a cancel scope cost more than most calls do, so both are used
again: a worker that is done with a request takes the next one.
The one rule: no request ever waits for another. While something waits, a worker that is not busy is on its way; and
nothing of a request is left for the next: each has a context of its own, and a scope that was cancelled is thrown away
with its worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import trio

from mcptrio.contexts import Within

if TYPE_CHECKING:
    from mcptrio.runtime.request_scope import RequestScope

__all__ = ["Workers"]

IDLE = 64
"""Workers that stay when there is nothing to do; more are done for."""


class Workers:
    """
    Args:
        start: runs a task of the session.
        serve: handles a request; may be cancelled through the request's scope.
        finish: sends what there is to send, and lets go of the request.
        release: lets go of a request whose session ends.
    """

    def __init__(
        self,
        *,
        start: Callable[..., None],
        serve: Callable[[RequestScope], Coroutine[Any, Any, None]],
        finish: Callable[[RequestScope], Awaitable[None]],
        release: Callable[[RequestScope], None],
    ) -> None:
        self._start = start
        self._serve = serve
        self._finish = finish
        self._release = release
        self._waiting: deque[RequestScope] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._coming = False
        """A worker has been called and has not looked yet."""
        self._closed = False

    def put(self, scope: RequestScope) -> None:
        """Have a request served, at once."""
        self._waiting.append(scope)
        self._call()

    def close(self) -> None:
        """Nothing more will be put: workers without work leave."""
        self._closed = True
        self._idle.unpark_all()

    def _call(self) -> None:
        if self._coming:
            return
        self._coming = True
        if self._idle:
            self._idle.unpark()
        else:
            self._start(self._work)

    async def _work(self) -> None:
        current: RequestScope | None = None
        try:
            with trio.CancelScope() as lent:
                while True:
                    self._coming = False
                    while self._waiting:
                        current = self._waiting.popleft()
                        if self._waiting:
                            # In case this one takes long; if not, whoever comes finds nothing and stays for later.
                            self._call()
                        if current.lend(lent):
                            await Within(copy_context(), self._serve(current))
                        if lent.cancel_called:
                            break
                        done, current = current, None
                        await self._finish(done)
                    if current is not None or self._closed or len(self._idle) >= IDLE:
                        break
                    await self._idle.park()
            if self._waiting:
                self._call()
            if current is not None:
                done, current = current, None
                await self._finish(done)
        finally:
            if current is not None:
                self._release(current)
