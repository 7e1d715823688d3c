"""Detects functions that block the event loop, and logs them.

The server runs it while it is open. A plugin that computes or waits without ``await`` blocks all requests, and no task
can detect that. So a thread asks the loop for a sign of life and, if none comes, reads the stack of the Trio thread. It
never waits for the loop without a timeout.
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
"""Seconds for the thread to end."""
_REAL_CLOCK: Final = "trio._core._run"
"""The module of Trio's default clock, whose class is not public."""
_FRAMES: Final = 200
"""Frames of the stack that are searched for an owner."""


@asynccontextmanager
async def watch_loop(timeout: float, owner_of: Callable[[str], str | None]) -> AsyncIterator[None]:
    """While the block runs, log every time that the loop was blocked for longer than ``timeout``.

    Disabled with a test clock, which jumps when all tasks wait.

    Args:
        timeout: Seconds; ``math.inf`` switches the check off.
        owner_of: Returns the owner of a source file, in words; ``None`` if it has none.
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
        """Make the thread stop waiting. The loop calls this and then waits for the thread."""
        self._ended.set()
        self._alive.set()

    def run(self) -> None:
        try:
            while not self._ended.wait(_ASKED):
                self._alive.clear()
                if self._ended.is_set():
                    return
                sent = monotonic()
                self._token.run_sync_soon(self._alive.set, idempotent=True)
                if not self._alive.wait(self._timeout) and not self._ended.is_set():
                    self._report(sent)
        except trio.RunFinishedError:
            pass  # there is no loop any more

    def _report(self, sent: float) -> None:
        """Log the blocking function, and at its end the duration."""
        culprit = self._culprit()
        _log.error("the event loop has been blocked for %.3g s by %s", monotonic() - sent, culprit)
        while not self._alive.wait(_ASKED):
            if self._ended.is_set():
                return
        _log.error("the event loop was blocked for %.3g s by %s", monotonic() - sent, culprit)

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
