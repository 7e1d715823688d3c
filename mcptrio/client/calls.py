"""The requests of a client that wait for an answer: their deadlines, cancellation and progress reports.

ClientSession sends every request through it, except those of the negotiation. If a caller stops waiting, the server is
told to cancel. Progress callbacks run in the caller's task, in order, and before the answer is returned.

Source: MCP 2026-07-28, basic/patterns/cancellation and basic/patterns/progress; MCP 2025-11-25, basic/lifecycle,
"Timeouts".
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from types import MappingProxyType
from typing import TypeAlias

import trio
from attrs import define, frozen

from mcptrio.abc.links import Link
from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.errors import MCPTrioError, RequestTimeout
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.protocol.client_connection import RequestSent
from mcptrio.protocol.messages import ErrorResponse, Response
from mcptrio.protocol.model.progress import ProgressParams, ProgressToken

__all__ = ["Calls", "OnProgress", "Progress"]

MAX_UNREAD_REPORTS = 64
"""Progress reports queued for a callback. When full, the oldest is dropped."""
_NO_HEADERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@frozen
class Progress:
    """A progress report of a request.

    Args:
        progress: The amount that is done; it increases with each report.
        total: The value of ``progress`` at the end, if the server knows it.
        message: A description for the user.
    """

    progress: float
    total: float | None = None
    message: str | None = None


OnProgress: TypeAlias = Callable[[Progress], Awaitable[None] | None]
"""A callback for progress reports, plain or async. An exception that it raises ends the call."""

Answer: TypeAlias = Response | ErrorResponse


@define(eq=False, slots=True)
class _Call:
    link: Link
    sent: RequestSent
    idle: float
    # The Trio clock time after which progress does not move the deadline any more.
    final_deadline: float
    # The current deadline.
    deadline: float
    # True if the idle timeout does not run while a handler of the client runs.
    pauses_for_handlers: bool
    # Encloses the request and its callback, if it has one.
    scope: trio.CancelScope | None = None
    expired: bool = False
    reports: trio.MemorySendChannel[Progress] | None = None
    unread: trio.MemoryReceiveChannel[Progress] | None = None

    def expire(self) -> None:
        self.expired = True
        if self.scope is not None:
            self.scope.cancel()
        else:
            self.link.abandon(self.sent.message.id)


class Calls:
    """The requests in flight of one session.

    Args:
        cancel: Starts sending the cancellation of a request to the server. Must not block.
    """

    def __init__(self, timeouts: ClientTimeouts, cancel: Callable[[Link, RequestSent], None]) -> None:
        self._timeouts = timeouts
        self._cancel = cancel
        self._active: dict[ProgressToken, _Call] = {}
        self._deadlines = Deadlines()
        # While a handler runs, perhaps waiting for the user, the server cannot be expected to answer.
        self._handlers_running = 0

    async def watch(self) -> None:
        """Enforce the deadlines until cancelled. Must run while requests are in flight."""
        await self._deadlines.run()

    async def exchange(
        self,
        link: Link,
        sent: RequestSent,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        param_headers: Mapping[str, tuple[str, ...]] = _NO_HEADERS,
    ) -> Answer:
        """Send a request and wait for its answer.

        Args:
            timeout: Seconds since the request was sent or its last progress report; by default ``timeouts.idle``.

        Raises:
            RequestTimeout: There was no answer in time.
            RequestFailed, SessionLost, ConnectionClosed: See :meth:`mcptrio.abc.Link.exchange`.
        """
        id = sent.message.id
        started = trio.current_time()
        idle = self._timeouts.idle if timeout is None else timeout
        final_deadline = started + max(self._timeouts.request, idle)
        # A ping checks whether the server lives, which does not depend on the user.
        pauses_for_handlers = sent.message.method != "ping"
        deadline = final_deadline if self._handlers_running and pauses_for_handlers else started + idle
        call = self._active[id] = _Call(link, sent, idle, final_deadline, deadline, pauses_for_handlers)
        self._deadlines.add(call)
        try:
            if on_progress is not None:
                return await self._reporting(call, param_headers, on_progress)
            return await self._exchange(call, param_headers)
        # Raised by expire() through Link.abandon. The on_progress callback may raise the same type.
        except trio.TooSlowError:
            if not call.expired:
                raise
        finally:
            self._deadlines.discard(call)
            del self._active[id]
        seconds = trio.current_time() - started
        raise RequestTimeout(
            f"{sent.message.method}: no answer from {link.name} within {seconds:.3g} s", seconds=seconds
        )

    def progressed(self, params: ProgressParams) -> None:
        """Handle a progress notification. Ignored if its request is no longer in flight."""
        call = self._active.get(params.progress_token)
        if call is None:
            return
        if not self._handlers_running:
            self._set_deadline(call, trio.current_time() + call.idle)
        if call.reports is None or call.unread is None:
            return
        progress = Progress(params.progress, params.total, params.message)
        try:
            call.reports.send_nowait(progress)
        except trio.WouldBlock:
            call.unread.receive_nowait()
            call.reports.send_nowait(progress)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # The callback has failed, or the answer has arrived.
            pass

    @contextmanager
    def handler_running(self) -> Iterator[None]:
        """Pause the idle timeouts while a handler of the client runs; only ``timeouts.request`` applies."""
        self._handlers_running += 1
        for call in self._active.values():
            if call.pauses_for_handlers:
                self._set_deadline(call, call.final_deadline)
        try:
            yield
        finally:
            self._handlers_running -= 1
            if not self._handlers_running:
                now = trio.current_time()
                for call in self._active.values():
                    if call.pauses_for_handlers:
                        self._set_deadline(call, now + call.idle)

    # Private

    def _set_deadline(self, call: _Call, deadline: float) -> None:
        call.deadline = min(deadline, call.final_deadline)
        self._deadlines.moved(call)

    async def _exchange(self, call: _Call, param_headers: Mapping[str, tuple[str, ...]]) -> Answer:
        try:
            return await call.link.exchange(call.sent.message, call.sent.revision, param_headers=param_headers)
        except (trio.Cancelled, trio.TooSlowError):
            if not call.link.cancels_by_closing(call.sent.revision):
                self._cancel(call.link, call.sent)
            raise

    async def _reporting(
        self, call: _Call, param_headers: Mapping[str, tuple[str, ...]], on_progress: OnProgress
    ) -> Answer:
        call.reports, call.unread = trio.open_memory_channel[Progress](MAX_UNREAD_REPORTS)
        done: list[Answer | MCPTrioError] = []
        failure: BaseException | None = None

        async def work(sender: trio.MemorySendChannel[Progress]) -> None:
            with sender:
                try:
                    done.append(await self._exchange(call, param_headers))
                except MCPTrioError as error:
                    done.append(error)
            # The answer has arrived. The callback may take any time for the remaining reports.
            call.idle = call.final_deadline = call.deadline = inf

        with call.unread:
            async with trio.open_nursery() as nursery:
                call.scope = nursery.cancel_scope
                nursery.start_soon(work, call.reports)
                async for progress in call.unread:
                    # Guarded, so that the callback's exception does not reach the caller in a group.
                    outcome = await run_guarded(_report, on_progress, progress)
                    if isinstance(outcome, Failure):
                        failure = outcome.error
                        nursery.cancel_scope.cancel()
                        break
        if failure is not None:
            raise failure
        if not done:
            raise trio.TooSlowError
        [result] = done
        if isinstance(result, MCPTrioError):
            raise result
        return result


async def _report(on_progress: OnProgress, progress: Progress) -> None:
    returned = on_progress(progress)
    if inspect.isawaitable(returned):
        await returned
