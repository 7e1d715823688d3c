"""Detects functions that block the event loop, and logs them.

The server runs it while it is open. A plugin that computes or waits without ``await`` blocks all requests, and no task
can detect that. So a thread asks the loop for a sign of life and, without one, reads the stack of the Trio thread. It
never waits for the loop without a limit.
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

_ASKED: Final = 0.5
"""Seconds between two signs of life."""
_JOIN_TIMEOUT: Final = 1.0
"""Seconds the thread has for ending; it needs none."""
_REAL_CLOCK: Final = "trio._core._run"
"""Where Trio's own clock is from, which is not public."""
_FRAMES: Final = 200
"""Of the stack that are looked at."""


@asynccontextmanager
async def watch_loop(timeout: float, owner_of: Callable[[str], str | None]) -> AsyncIterator[None]:
    """While the block runs, log every time that the loop was blocked for longer than ``timeout``.

    Disabled with a test clock, which jumps when all tasks wait.

    Args:
        timeout: seconds; ``math.inf`` switches the check off.
        owner_of: returns the owner of a source file, in words; ``None`` if it has none.
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
    def __init__(self, token: trio.lowlevel.TrioToken, timeout: float, owner_of: Callable[[str], str | None]) -> None:
        self._ended = threading.Event()
        self._token = token
        self._timeout = timeout
        self._owner_of = owner_of
        self._loop = threading.get_ident()
        self._alive = threading.Event()

    def end(self) -> None:
        """Called by the loop, which then waits for the thread: so that may not wait for the loop any more."""
        self._ended.set()
        self._alive.set()

    def run(self) -> None:
        try:
            while not self._ended.wait(_ASKED):
                self._alive.clear()
                if self._ended.is_set():
                    return
                asked = monotonic()
                self._token.run_sync_soon(self._alive.set, idempotent=True)
                if not self._alive.wait(self._timeout) and not self._ended.is_set():
                    self._report(asked)
        except trio.RunFinishedError:
            pass  # there is no loop any more

    def _report(self, asked: float) -> None:
        """Say who it is, and when it is over, how long it took."""
        culprit = self._culprit()
        _log.error("the event loop has been held up for %.3g s by %s", monotonic() - asked, culprit)
        while not self._alive.wait(_ASKED):
            if self._ended.is_set():
                return
        _log.error("the event loop was held up for %.3g s by %s", monotonic() - asked, culprit)

    def _culprit(self) -> str:
        """Return the innermost frame that has an owner, or else the innermost one."""
        frame: FrameType | None = sys._current_frames().get(self._loop)
        innermost = frame
        for _ in range(_FRAMES):
            if frame is None:
                break
            owner = self._owner_of(frame.f_code.co_filename)
            if owner is not None:
                return f"{owner}, in {_place(frame)}"
            frame = frame.f_back
        return _place(innermost) if innermost is not None else "something unknown"


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
