"""A tool call that the caller follows while it runs.

``Client.start_tool`` returns a ToolCall. Progress reports arrive in order and before the result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from mcptrio.client.calls import OnProgress, Progress
from mcptrio.errors import MCPTrioError, RequestFailed
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.protocol.model.tools import CallToolResult

__all__ = ["ToolCall", "followed"]

MAX_UNREAD_REPORTS = 64
"""Progress reports that wait for the reader. When full, the call waits."""


class ToolCall:
    """A running tool call. Made by ``Client.start_tool``.

    Iterate over its progress with ``async for progress in call: ...``, then ``await call.result()``.
    """

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Progress](MAX_UNREAD_REPORTS)
        self._done = trio.Event()
        self._result: CallToolResult | MCPTrioError | None = None

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

    # For the client

    async def report(self, progress: Progress) -> None:
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


@asynccontextmanager
async def followed(work: Callable[[OnProgress], Awaitable[CallToolResult]]) -> AsyncIterator[ToolCall]:
    """Run a tool call inside the context. Leaving the context before the result cancels the call.

    Args:
        work: Makes the call and reports its progress.
    """
    call = ToolCall()

    async def run() -> None:
        try:
            call.end(await work(call.report))
        except MCPTrioError as error:
            call.end(error)

    async with open_hidden_nursery() as nursery:
        nursery.start_soon(run)
        try:
            yield call
        finally:
            call.end(RequestFailed("the call was left before its result"))
