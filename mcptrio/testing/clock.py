"""A test clock that jumps to the next deadline when every task waits.

The pytest plugin uses it for tests marked ``mcp(autojump=True)``. It is the same clock as pytest-trio's
``autojump_clock``. Trio knows when all tasks wait, but not about threads, which :func:`waiting_for_threads` adds, nor
about sockets and processes: use it for tests in memory only.

Source: trio.testing.MockClock, "autojump_threshold".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import trio
import trio.testing

__all__ = ["run_jumping", "waiting_for_threads"]

THREAD_TIMEOUT: Final = 1.0
"""Real seconds without any event for which the clock waits for a running thread. Bounded, because the thread may itself
wait for a task that sleeps."""


def run_jumping(
    function: Callable[[], Awaitable[Any]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> Any:
    """Run like ``trio.run``, with a clock that jumps to the next deadline when every task waits.

    Args:
        clock: The clock to use; by default a new one that jumps.
    """
    clock = clock or trio.testing.MockClock(autojump_threshold=0)
    return trio.run(function, clock=clock, instruments=instruments)


class Borrowed(Protocol):
    """One or several capacity limiters."""

    @property
    def borrowed_tokens(self) -> int: ...


@contextmanager
def waiting_for_threads(*limiters: Borrowed) -> Iterator[None]:
    """Make a jumping clock wait up to :data:`THREAD_TIMEOUT` seconds for running threads. Does nothing on a real clock.

    Args:
        limiters: The limiters of the threads, in addition to Trio's default one.
    """
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, trio.testing.MockClock):
        yield
        return
    watch = _Watch(clock, (*limiters, trio.to_thread.current_default_thread_limiter()))
    trio.lowlevel.add_instrument(watch)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(watch)
        watch.let_go()


class _Watch(trio.abc.Instrument):
    """Adapts the clock's threshold after each step of a task."""

    def __init__(self, clock: trio.testing.MockClock, limiters: Sequence[Borrowed]) -> None:
        self._clock = clock
        self._limiters = limiters
        # The threshold to restore when no thread runs any more; None while none runs.
        self._kept: float | None = None

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        # Threads start, and their results are received, only in a step of a task, so this is often enough.
        is_working = any(limiter.borrowed_tokens for limiter in self._limiters)
        if is_working and self._kept is None:
            self._kept = self._clock.autojump_threshold
            self._clock.autojump_threshold = max(self._kept, THREAD_TIMEOUT)
        elif not is_working:
            self.let_go()

    def let_go(self) -> None:
        if self._kept is not None:
            self._clock.autojump_threshold = self._kept
            self._kept = None
