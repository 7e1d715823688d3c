"""mcptrio's client in an asyncio application: Trio runs in a thread, and a bridge passes calls to it.

Run it: python examples/asyncio_host.py

A call that is cancelled in asyncio is cancelled in Trio and on the server. The thread ends with the bridge.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import trio

import mcptrio
from mcptrio.types import TextContent

__all__ = ["Bridge", "main"]

T = TypeVar("T")


class Bridge:
    """``async with Bridge(target) as bridge:`` in asyncio; one client, one thread."""

    def __init__(self, target: Any) -> None:
        self._target = target

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), name="mcptrio")
        self._thread.start()
        try:
            await asyncio.shield(self._ready)
        except BaseException:
            await self._join()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._token.run_sync_soon(self._stop.set)
        await self._join()

    async def ask(self, work: Callable[[mcptrio.Client], Awaitable[T]]) -> T:
        """Run a function with the client in Trio, and return its result or raise its exception."""
        answer: asyncio.Future[T] = self._loop.create_future()
        scope = trio.CancelScope()
        self._token.run_sync_soon(self._nursery.start_soon, self._run_work, work, answer, scope)
        try:
            return await answer
        finally:
            self._token.run_sync_soon(scope.cancel)

    # In Trio's thread

    async def _run(self) -> None:
        self._token, self._stop = trio.lowlevel.current_trio_token(), trio.Event()
        try:
            async with mcptrio.connect(self._target) as self._client, trio.open_nursery() as self._nursery:
                self._settle(self._ready, None, None)
                await self._stop.wait()
                self._nursery.cancel_scope.cancel()
        except mcptrio.MCPTrioError as error:
            self._settle(self._ready, None, error)

    async def _run_work(
        self, work: Callable[[mcptrio.Client], Awaitable[T]], answer: asyncio.Future[T], scope: trio.CancelScope
    ) -> None:
        with scope:
            try:
                result = await work(self._client)
            except mcptrio.MCPTrioError as error:
                self._settle(answer, None, error)
            else:
                self._settle(answer, result, None)

    def _settle(self, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        def set_outcome() -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._loop.call_soon_threadsafe(set_outcome)

    async def _join(self) -> None:
        await asyncio.to_thread(self._thread.join)


PLUGIN = Path(__file__).resolve().parent / "progress.py"


async def main() -> None:
    """Make two calls at the same time, and cancel a third one."""
    command = [sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(PLUGIN)]
    async with Bridge(command) as bridge:

        async def call(name: str, arguments: dict[str, Any]) -> str:
            result = await bridge.ask(lambda client: client.call_tool(name, arguments))
            return "".join(block.text for block in result.content if isinstance(block, TextContent))

        print(*await asyncio.gather(call("count", {"to": 3}), call("checksum", {"text": "abc"})))
        try:
            async with asyncio.timeout(0.3):
                await call("count", {"to": 1000})
        except TimeoutError:
            print("left early, and cancelled the call")


if __name__ == "__main__":
    asyncio.run(main())
