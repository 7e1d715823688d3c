"""A test clock that jumps to the next deadline when every task waits.

The pytest plugin uses this clock for tests marked ``mcp(autojump=True)``. It is the same clock as ``autojump_clock`` of
pytest-trio. Trio knows when all tasks wait, but it does not know about threads, for which :func:`waiting_for_threads`
waits, nor about sockets and processes. So the clock is for tests in memory only.

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
"""Real seconds without any event for which the clock waits for a running thread. Bounded, because the thread may wait
for a task that sleeps."""


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


class ThreadLimiter(Protocol):
    """One or several capacity limiters of threads."""

    @property
    def borrowed_tokens(self) -> int:
        """The number of running threads."""
        ...


@contextmanager
def waiting_for_threads(*limiters: ThreadLimiter) -> Iterator[None]:
    """Make a jumping clock wait up to :data:`THREAD_TIMEOUT` seconds for running threads inside the context.

    Does nothing with a real clock.

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
        watch.restore()


class _Watch(trio.abc.Instrument):
    """Raises the clock's threshold while threads run."""

    def __init__(self, clock: trio.testing.MockClock, limiters: Sequence[ThreadLimiter]) -> None:
        self._clock = clock
        self._limiters = limiters
        self._saved_threshold: float | None = None
        """The threshold to restore when no thread runs any more; ``None`` while none runs."""

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        # Checking after each step is enough, because threads start and return their results only in a step of a task.
        is_working = any(limiter.borrowed_tokens for limiter in self._limiters)
        if is_working and self._saved_threshold is None:
            self._saved_threshold = self._clock.autojump_threshold
            self._clock.autojump_threshold = max(self._saved_threshold, THREAD_TIMEOUT)
        elif not is_working:
            self.restore()

    def restore(self) -> None:
        """Restore the clock's threshold."""
        if self._saved_threshold is not None:
            self._clock.autojump_threshold = self._saved_threshold
            self._saved_threshold = None
