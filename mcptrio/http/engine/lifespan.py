"""The lifespan of an ASGI application: started before the first request, shut down after the last one.

Source: ASGI 3.0, lifespan protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from mcptrio.http.engine.limits import LOG

__all__ = ["open_lifespan"]


@asynccontextmanager
async def open_lifespan(app: Callable[..., Awaitable[None]], state: dict[str, Any]) -> AsyncIterator[None]:
    """Run the application's lifespan around the block, if it has one.

    The application decides how long its start-up and shutdown take; the caller sets deadlines.

    Args:
        state: The application's state, which is in the scope of each request.

    Raises:
        RuntimeError: The application's start-up or shutdown has failed. The error has the application's message.
    """
    lifespan = _Lifespan(app, state)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifespan.run)
        await lifespan.send("startup")
        yield
        await lifespan.send("shutdown")
        nursery.cancel_scope.cancel()


class _Lifespan:
    def __init__(self, app: Callable[..., Awaitable[None]], state: dict[str, Any]) -> None:
        self._app = app
        self._state = state
        self._event_sender: trio.MemorySendChannel[str]
        self._event_sender, self._event_receiver = trio.open_memory_channel[str](1)
        self._answered = trio.Event()
        self._failure: str | None = None
        self._has_ended = False

    async def run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
        try:
            await self._app(scope, self._receive, self._send)
        except Exception:  # "If an exception is raised … the server must continue but not send any lifespan events"
            LOG.debug("the application has no lifespan", exc_info=True)
        finally:
            self._has_ended = True
            # Otherwise send() would wait for an application that has ended.
            self._answered.set()

    async def send(self, phase: str) -> None:
        # The application has raised or returned, so it has no lifespan.
        if self._has_ended:
            return
        # Replaced before the event is sent, so that the answer is not missed.
        self._answered = trio.Event()
        await self._event_sender.send(phase)
        await self._answered.wait()
        if self._failure is not None:
            raise RuntimeError(f"the application's {phase} has failed: {self._failure}")

    async def _receive(self) -> MutableMapping[str, Any]:
        return {"type": f"lifespan.{await self._event_receiver.receive()}"}

    async def _send(self, event: MutableMapping[str, Any]) -> None:
        if event["type"].endswith(".failed"):
            self._failure = event.get("message", "") or "no reason given"
        self._answered.set()
        await trio.lowlevel.checkpoint()
