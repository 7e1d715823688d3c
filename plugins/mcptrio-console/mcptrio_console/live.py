"""The live part of a page as server-sent events. Each event has the HTML of the part, after it has changed.

Source: HTML Living Standard, "Server-sent events".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from time import perf_counter
from types import TracebackType
from typing import Self

import orjson
import trio
from quart.wrappers.response import ResponseBody

from .status_watch import StatusWatch

__all__ = ["LiveBody"]


class LiveBody(ResponseBody):
    """The body of an event stream for one viewer.

    Args:
        render: Returns the HTML of the live part.
        has_access: Returns whether the session of the viewer is still valid.
    """

    def __init__(
        self, watch: StatusWatch, render: Callable[[], str], has_access: Callable[[], Awaitable[bool]]
    ) -> None:
        self._watch = watch
        self._render = render
        self._may_go_on = has_access
        self._shown = ""
        self._pause = 0.0
        self._stack = ExitStack()

    async def __aenter__(self) -> Self:
        self._stack.enter_context(self._watch.viewing())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            await trio.sleep(self._pause)
            # A stopping server waits for this response, so the response must end.
            if self._watch.status.draining or not await self._may_go_on():
                raise StopAsyncIteration
            started = perf_counter()
            html = self._render()
            self._pause = self._watch.pause_after(perf_counter() - started)
            if html != self._shown:
                self._shown = html
                return b"data: " + orjson.dumps(html) + b"\n\n"
