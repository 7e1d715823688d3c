"""A tool call that the caller follows while it runs, or detaches as a task of the server.

``Client.start_tool`` returns a ToolCall. Progress reports arrive in order and before the result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import trio

from mcptrio.client.calls import OnProgress, Progress
from mcptrio.client.tasks import ClientTask
from mcptrio.errors import MCPTrioError, RequestFailed
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.protocol.model.tasks import TaskStatus
from mcptrio.protocol.model.tools import CallToolResult

__all__ = ["ToolCall", "followed"]

MAX_UNREAD_REPORTS = 64
"""Progress reports that wait for the reader. When full, the call waits."""


class CallWork(Protocol):
    """Makes a tool call. Calls ``created`` with its task, if the server makes one."""

    def __call__(
        self, *, progress: OnProgress, created: Callable[[ClientTask], object]
    ) -> Awaitable[CallToolResult]: ...


class ToolCall:
    """A running tool call. Made by ``Client.start_tool``.

    Iterate over its progress with ``async for progress in call: ...``, then ``await call.result()``.
    If the server has made a task of the call, its progress reports are the texts about the task's status.
    """

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Progress](MAX_UNREAD_REPORTS)
        self._done = trio.Event()
        self._result: CallToolResult | MCPTrioError | None = None
        self._task: ClientTask | None = None
        self._scope = trio.CancelScope()
        # Set when the call has a task, or has ended without one.
        self._settled = trio.Event()

    @property
    def task_id(self) -> str | None:
        """The id of the server's task; ``None`` while the call has no task."""
        return None if self._task is None else self._task.id

    @property
    def status(self) -> TaskStatus | None:
        """The status of the server's task, as the client last received it; ``None`` while the call has no task."""
        return None if self._task is None else self._task.status

    def __aiter__(self) -> AsyncIterator[Progress]:
        return self

    async def __anext__(self) -> Progress:
        try:
            return await self._receive.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise StopAsyncIteration from None

    async def result(self) -> CallToolResult:
        """Wait for the result. Progress reports that were not read are dropped.

        Raises:
            MCPTrioError: The call failed, as in ``Client.call_tool``.
            RequestFailed: The block ended before the result.
        """
        self._receive.close()
        await self._done.wait()
        if isinstance(self._result, MCPTrioError):
            raise self._result
        assert self._result is not None
        return self._result

    async def detach(self) -> str | None:
        """Detach the call as a task, and return the id of the task. The server decides when a call becomes a task.

        The end of the block then does not cancel the task. ``Client.task`` follows it again, in another process too.

        Returns:
            The id; ``None`` if the call has already ended, so that :meth:`result` returns its result.
        """
        self._receive.close()
        await self._settled.wait()
        if self._task is None or (self._done.is_set() and not self._task.is_detached):
            return None
        self._task.is_detached = True
        self.end(RequestFailed(f"the call was detached; task {self._task.id} has its result"))
        self._scope.cancel()
        return self._task.id

    # For the client

    async def _run(self, work: CallWork) -> None:
        with self._scope:
            try:
                self.end(await work(progress=self._report, created=self._on_task))
            except MCPTrioError as error:
                self.end(error)

    def _on_task(self, task: ClientTask) -> None:
        self._task = task
        self._settled.set()

    async def _report(self, progress: Progress) -> None:
        try:
            await self._send.send(progress)
        except trio.BrokenResourceError:
            # The reader has called result(), which closes the receiving end.
            pass

    def end(self, result: CallToolResult | MCPTrioError) -> None:
        """Set the result, unless the call has one."""
        if self._result is None:
            self._result = result
            self._send.close()
            self._done.set()
            self._settled.set()


@asynccontextmanager
async def followed(work: CallWork) -> AsyncIterator[ToolCall]:
    """Run a tool call inside the context. Leaving the context before the result cancels the call."""
    call = ToolCall()
    async with open_hidden_nursery() as nursery:
        nursery.start_soon(call._run, work)
        try:
            yield call
        finally:
            call.end(RequestFailed("the block of the call ended before its result"))
