"""Keeps background tasks of plugins running while the server is open.

A task that fails is restarted, with increasing pauses. A task that returns is not restarted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable

import trio

from mcptrio.abc.tracing import trace_step
from mcptrio.ground.guarded import Failure, run_guarded

__all__ = ["RESTARTS", "keep_running"]

_log = logging.getLogger("mcptrio.background")

RESTARTS: Counter[str] = Counter()
"""The number of restarts of each plugin's tasks in this process, for metrics."""
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 60.0
"""The longest pause before a restart. The pause doubles each time. If a task fails after it has run for longer than
this, the pause is :data:`FIRST_PAUSE_SECONDS` again."""


async def keep_running(task: Callable[[], Awaitable[None]], label: str) -> None:
    """Run a task until it returns.

    Args:
        label: The plugin, for the log and the metrics.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        started = trio.current_time()
        outcome = await run_guarded(task)
        if not isinstance(outcome, Failure):
            return
        # The task had worked for a while, so this is not a crash loop.
        if trio.current_time() - started > MAX_PAUSE_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        name = getattr(task, "__qualname__", repr(task))
        _log.error("%s: %s failed, started again in %g s", label, name, pause, exc_info=outcome.error)
        RESTARTS[label] += 1
        with trace_step("restart task", label, outcome.error):
            await trio.sleep(pause)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)
