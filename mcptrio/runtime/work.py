"""Counts the running code of plugins until it has really ended.

A :class:`Work` is one call of an author's function, one request in a plugin's middleware, or one HTTP request to a
plugin's ASGI application. Its code may run long after the answer was sent: a thread cannot be cancelled, and a handler
of 2026-07-28 cleans up outside of its request. Until the code ends, it keeps its places in limiters, and the lifespan
of its plugin stays open.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

import trio
from attrs import define, field

from mcptrio.abc.status import ThreadStatus, WaitsFor
from mcptrio.errors import InternalError, MCPError
from mcptrio.ground.shares import RefCountedShare
from mcptrio.runtime.fair_limiter import FairLimiter

__all__ = ["EndableRequest", "ThreadShares", "Work", "WorkCancelScope", "WorkSet"]

CANCEL_TIMEOUT = 1.0
"""Seconds for cancelled calls to end."""


class EndableRequest(Protocol):
    """The interface of a request for its calls. The request can be ended before their code has ended."""

    waits_for: WaitsFor | None
    """The limiter in which a call waits for a place."""
    in_thread: bool
    """Whether a call has a place for its thread."""

    @property
    def memory(self) -> RefCountedShare | None:
        """The memory that its parameters use until the last call has ended."""
        ...

    def fail(self, error: MCPError, /) -> None:
        """Cancel the request and answer it with an error."""
        ...

    def conclude(self) -> None:
        """Answer the request with its result if it is a request that stays open."""
        ...


class WorkCancelScope:
    """The cancel scope of a call that is made for a notification or an HTTP request instead of an MCP request."""

    memory = None
    waits_for: WaitsFor | None = None
    in_thread = False

    def __init__(self) -> None:
        self.cancel_scope = trio.CancelScope()

    def fail(self, error: MCPError) -> None:
        """See :class:`EndableRequest`."""
        self.cancel_scope.cancel()

    def conclude(self) -> None:
        """See :class:`EndableRequest`. Does nothing."""


@define(eq=False, slots=True)
class Work:
    """One call of an author's function: its tasks and threads, and their places in limiters.

    It is also the limiter of the call's own thread, because Trio releases a limiter when the thread has really ended.

    Args:
        label: The name of the tool or similar, for messages.
        owner: The plugin of the function.
        scope: The request that waits for it.
    """

    _works: WorkSet
    label: str
    owner: str | None
    scope: EndableRequest
    _limiters: list[FairLimiter] = field(init=False, factory=list)
    _running_parts: int = field(init=False, default=0)
    _ended: trio.Event | None = field(init=False, default=None)

    def begin(self) -> None:
        """Count a task or thread that starts."""
        if self._running_parts == 0:
            self._works.add(self)
            if self.scope.memory is not None:
                self.scope.memory.use()
        self._running_parts += 1

    def end(self) -> None:
        """Count a task or thread that has ended. The last one frees all places."""
        self._running_parts -= 1
        if self._running_parts == 0:
            while self._limiters:
                self._limiters.pop().release_on_behalf_of(self)
            self._works.discard(self)
            if self.scope.memory is not None:
                self.scope.memory.release()
            if self._ended is not None:
                self._ended.set()
                self._ended = None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    async def hold(self, limiter: FairLimiter, place: WaitsFor) -> None:
        """Take a place and keep it until the code has ended. This waits, with a checkpoint, only if none is free."""
        try:
            # A place is almost always free, and a checkpoint costs more than most calls.
            limiter.acquire_on_behalf_of_nowait(self)
        except trio.WouldBlock:
            self.scope.waits_for = place
            try:
                await limiter.acquire_on_behalf_of(self)
            finally:
                self.scope.waits_for = None
        self._limiters.append(limiter)
        if place == "thread":
            self.scope.in_thread = True

    async def wait_ended(self) -> None:
        """Wait until no code of the call is running."""
        if self._running_parts:
            if self._ended is None:
                self._ended = trio.Event()
            await self._ended.wait()

    # As the limiter of a thread

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        self.begin()

    def release_on_behalf_of(self, borrower: object) -> None:
        self.end()


class WorkSet(set[Work]):
    """The running calls of a server."""

    def new(self, label: str, owner: str | None, scope: EndableRequest) -> Work:
        """Return a new call, which is counted while it runs: ``with works.new(...) as work``."""
        return Work(self, label, owner, scope)

    async def wait_ended(self) -> None:
        """Wait until no call is running."""
        while self:
            for work in list(self):
                await work.wait_ended()

    async def drain(self, owner: str, reason: str, deadline: float, excluded: EndableRequest | None = None) -> None:
        """Wait until no call of a plugin is running. Calls that have not ended by ``deadline`` are cancelled.

        Args:
            excluded: A request to leave out.
        """
        for work in self._work_of(owner, excluded):
            work.scope.conclude()
        with trio.move_on_at(deadline) as scope:
            await self._wait_ended(owner, excluded)
        if scope.cancelled_caught:
            for work in self._work_of(owner, excluded):
                work.scope.fail(InternalError(f"{work.label} was ended: {reason}"))
            with trio.move_on_after(CANCEL_TIMEOUT):
                await self._wait_ended(owner, excluded)

    # Private

    def _work_of(self, owner: str, excluded: EndableRequest | None) -> list[Work]:
        return [work for work in self if work.owner == owner and (excluded is None or work.scope is not excluded)]

    async def _wait_ended(self, owner: str, excluded: EndableRequest | None) -> None:
        while works := self._work_of(owner, excluded):
            for work in works:
                await work.wait_ended()


class ThreadShares:
    """The limiters for threads of sync functions, separate for each plugin.

    Clients take turns, and one client over HTTP gets about half of the threads.

    Args:
        share: Maximum of concurrent threads of one plugin. An abandoned thread counts until it has ended.
    """

    def __init__(self, share: int) -> None:
        self._share = share
        self._calls: dict[str | None, FairLimiter] = {}
        self._helpers: dict[str | None, FairLimiter] = {}

    def of_calls(self, owner: str | None) -> FairLimiter:
        """Return the limiter for a plugin's sync functions, or for the server's if ``owner`` is ``None``."""
        return self._limiter(self._calls, owner)

    def of_helpers(self, owner: str | None) -> FairLimiter:
        """Return the limiter for threads that a plugin's functions start."""
        # With a single limiter, sync functions that hold all its places and wait for threads of their own would
        # deadlock.
        return self._limiter(self._helpers, owner)

    @property
    def borrowed_tokens(self) -> int:
        """The number of busy threads."""
        limiters = (*self._calls.values(), *self._helpers.values())
        return sum(limiter.borrowed_tokens for limiter in limiters)

    @property
    def status(self) -> ThreadStatus:
        return ThreadStatus(busy=self.borrowed_tokens, limit=self._share)

    def _limiter(self, limiters: dict[str | None, FairLimiter], owner: str | None) -> FairLimiter:
        limiter = limiters.get(owner)
        if limiter is None:
            limiter = limiters[owner] = FairLimiter(self._share, limits_share=True)
        return limiter
