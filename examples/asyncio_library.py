"""A plugin that uses an asyncio library: one event loop in a thread, for as long as the plugin runs.

Run it: mcptrio serve --stdio --plugin examples/asyncio_library.py

All calls use the same loop, so they can share a connection or a pool. A call that is cancelled in Trio is cancelled in
asyncio too. The thread ends with the plugin.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

import trio

from mcptrio import lifespan, tool

__all__ = ["Archive"]

T = TypeVar("T")


class Archive:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._pages: asyncio.Queue[str]

    @lifespan
    async def asyncio_thread(self) -> AsyncGenerator[None]:
        started = threading.Event()

        def run() -> None:
            # At the end of this block, the runner cancels the tasks that still run.
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                self._pages = asyncio.Queue()  # stands for a connection pool of an asyncio library
                started.set()
                self._loop.run_forever()

        thread = threading.Thread(target=run, name="asyncio", daemon=True)
        thread.start()
        await trio.to_thread.run_sync(started.wait)
        yield
        # mcptrio runs this also if the server is cancelled.
        self._loop.call_soon_threadsafe(self._loop.stop)
        await trio.to_thread.run_sync(thread.join)

    async def _in_asyncio(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            # If this call is cancelled, the thread that waits here ends when the future is cancelled below.
            return await trio.to_thread.run_sync(future.result, abandon_on_cancel=True)
        finally:
            future.cancel()

    @tool(read_only=False, destructive=False)
    async def publish(self, page: str) -> None:
        """Publish a page."""
        await self._in_asyncio(self._pages.put(page))

    @tool(read_only=True)
    async def next_page(self) -> str:
        """Wait for the next page."""
        return await self._in_asyncio(self._pages.get())
