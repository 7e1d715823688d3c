"""Detects functions that block the event loop, and logs them.

The server runs it while it is open. A plugin that computes or waits without ``await`` blocks all requests, and no task
can detect that. A thread regularly schedules a callback in the event loop. If the callback does not run in time, the
thread reads the stack of the Trio thread. It never waits for the loop without a timeout.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from time import monotonic
from types import FrameType
from typing import Final

import trio

__all__ = ["watch_loop"]

_log = logging.getLogger("mcptrio.watchdog")

_CHECK_INTERVAL: Final = 0.5
"""Seconds between two checks."""
_JOIN_TIMEOUT: Final = 1.0
"""Seconds for the thread to end."""
_REAL_CLOCK: Final = "trio._core._run"
"""The module of Trio's default clock, whose class is not public."""
_MAX_FRAMES: Final = 200
"""Innermost frames of the stack that are searched for one that has an owner."""


@asynccontextmanager
async def watch_loop(timeout: float, owner_of: Callable[[str], str | None]) -> AsyncIterator[None]:
    """Inside the context, log each function that blocks the event loop for longer than ``timeout``.

    This does nothing with a test clock, which jumps when all tasks wait.

    Args:
        timeout: Seconds; ``math.inf`` disables the check.
        owner_of: Returns the owner of a source file, for the log; ``None`` if it has none.
    """
    if timeout == inf or type(trio.lowlevel.current_clock()).__module__ != _REAL_CLOCK:
        yield
        return
    watch = _Watch(trio.lowlevel.current_trio_token(), timeout, owner_of)
    thread = threading.Thread(target=watch.run, name="mcptrio watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watch.end()
        thread.join(_JOIN_TIMEOUT)


class _Watch:
    """The checking thread."""

    def __init__(self, token: trio.lowlevel.TrioToken, timeout: float, owner_of: Callable[[str], str | None]) -> None:
        self._ended = threading.Event()
        self._token = token
        self._timeout = timeout
        self._owner_of = owner_of
        self._loop = threading.get_ident()
        self._alive = threading.Event()

    def end(self) -> None:
        """Make the thread stop waiting. The loop calls this and then waits for the thread."""
        self._ended.set()
        self._alive.set()

    def run(self) -> None:
        try:
            while not self._ended.wait(_CHECK_INTERVAL):
                self._alive.clear()
                if self._ended.is_set():
                    return
                sent = monotonic()
                self._token.run_sync_soon(self._alive.set, idempotent=True)
                if not self._alive.wait(self._timeout) and not self._ended.is_set():
                    self._report(sent)
        except trio.RunFinishedError:
            pass  # the event loop has ended

    def _report(self, sent: float) -> None:
        """Log the blocking function now, and again with the duration when the loop is no longer blocked."""
        culprit = self._culprit()
        advice = "run blocking code in a thread, with trio.to_thread.run_sync"
        _log.error("the event loop has been blocked for %.3g s by %s; %s", monotonic() - sent, culprit, advice)
        while not self._alive.wait(_CHECK_INTERVAL):
            if self._ended.is_set():
                return
        _log.error("the event loop was blocked for %.3g s by %s", monotonic() - sent, culprit)

    def _culprit(self) -> str:
        """Return a description of the innermost frame that has an owner, or else of the innermost frame."""
        frame: FrameType | None = sys._current_frames().get(self._loop)
        innermost = frame
        for _ in range(_MAX_FRAMES):
            if frame is None:
                break
            owner = self._owner_of(frame.f_code.co_filename)
            if owner is not None:
                return f"{owner}, in {_place(frame)}"
            frame = frame.f_back
        return _place(innermost) if innermost is not None else "something unknown"


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
