"""Background tasks of plugins: kept running while the server is open.

The one rule: a task that fails is started again, later each time; one that returns is done.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from mcptrio.ground.guarded import Failure, run_guarded

__all__ = ["keep_running"]

_log = logging.getLogger("mcptrio.background")

FIRST = 1.0
MAX_PAUSE_SECONDS = 60.0
"""Seconds between two starts: doubled from the first to the longest; a run of that length starts anew."""


async def keep_running(task: Callable[[], Awaitable[None]], label: str) -> None:
    """Run a task until it returns."""
    pause = FIRST
    while True:
        started = trio.current_time()
        outcome = await run_guarded(task)
        if not isinstance(outcome, Failure):
            return
        if trio.current_time() - started > MAX_PAUSE_SECONDS:
            pause = FIRST
        name = getattr(task, "__qualname__", repr(task))
        _log.error("%s: %s failed, started again in %g s", label, name, pause, exc_info=outcome.error)
        await trio.sleep(pause)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)
