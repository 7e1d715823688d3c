"""A clock for tests in memory, on which nobody waits.

Used by the pytest plugin for tests marked ``mcp(autojump=True)``; the fixture ``autojump_clock`` of pytest-trio is the
same clock.
The one rule: it jumps when nothing else can happen. Tasks are seen by Trio itself; a thread is not, so whoever serves
tools that run in threads says so with :func:`waiting_for_threads`. Sockets and processes are not seen at all: in memory
only.

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
"""Real seconds without any other event for which the clock stands still while a thread is at work. Not for ever: the
thread may itself wait for a task that sleeps."""


def run_jumping(
    function: Callable[[], Awaitable[Any]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> Any:
    """``trio.run`` with a clock that jumps to the next deadline as soon as every task waits.

    Args:
        clock: another one, which the test has asked for.
    """
    clock = clock or trio.testing.MockClock(autojump_threshold=0)
    return trio.run(function, clock=clock, instruments=instruments)


class Borrowed(Protocol):
    """A limiter, or several."""

    @property
    def borrowed_tokens(self) -> int: ...


@contextmanager
def waiting_for_threads(*limiters: Borrowed) -> Iterator[None]:
    """Inside, a clock that jumps gives threads :data:`THREAD_TIMEOUT` seconds; nothing happens on a real clock.

    Args:
        limiters: of the threads, beside Trio's own.
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
    """Looks after each step of a task, since only a step starts a thread or takes in its result."""

    def __init__(self, clock: trio.testing.MockClock, limiters: Sequence[Borrowed]) -> None:
        self._clock = clock
        self._limiters = limiters
        self._kept: float | None = None
        """The threshold to go back to, while a thread is at work."""

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
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
