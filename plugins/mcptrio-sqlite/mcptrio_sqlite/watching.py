"""The progress of a call, and whether it was stopped.

The child creates a Watch for each call. Code that computes for long calls :meth:`Watch.check` at intervals; SQLite does
so in its progress handler.

Source: sqlite.org/c3ref/progress_handler.html, sqlite.org/c3ref/interrupt.html.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from attrs import define, field

from .frames import CallProgress, Message, Turn

__all__ = ["STEPS", "CallStopped", "Watch"]

STEPS: Final = 5_000
"""Steps of SQLite's virtual machine between two checks: about a tenth of a millisecond."""
_ROWS: Final = 256
_PROGRESS_INTERVAL: Final = 0.4
"""Seconds between two progress reports to the server."""


class CallStopped(BaseException):
    """The call was stopped. Not an ``Exception``, so that no handler treats it as a failure."""


@define(eq=False)
class Watch:
    """The state of one call. Another thread may call :meth:`stop` only."""

    send: Callable[[Message], None]
    connection: sqlite3.Connection | None = None
    _is_stopped: bool = field(init=False, default=False)
    _steps: int = field(init=False, default=0)
    _rows: int = field(init=False, default=0)
    _reported_at: float = field(init=False, factory=time.monotonic)

    def stop(self) -> None:
        """Stop the current SQLite operation, and make later calls of :meth:`check` raise."""
        # Set first: interrupt() has no effect between two statements, where check() stops the call.
        self._is_stopped = True
        connection = self.connection
        if connection is not None:
            with suppress(sqlite3.Error):  # already closed
                connection.interrupt()

    def check(self) -> None:
        """Raise CallStopped if the call was stopped."""
        if self._is_stopped:
            raise CallStopped

    def step(self) -> int:
        """SQLite's progress handler; a nonzero result interrupts SQLite."""
        self._steps += STEPS
        self._report_progress()
        return int(self._is_stopped)

    def row(self) -> None:
        """Count one row, and check for a stop at intervals.

        Raises:
            CallStopped: The call was stopped.
        """
        self._rows += 1
        # A row may take fewer steps than the progress handler's interval.
        if self._rows % _ROWS == 0:
            self._report_progress()
            self.check()

    def turn(self) -> None:
        """Report that the statement has ended. COMMIT, ROLLBACK and closing may take longer and are not stopped."""
        self.send(Turn())

    def _report_progress(self) -> None:
        now = time.monotonic()
        if now - self._reported_at > _PROGRESS_INTERVAL:
            self._reported_at = now
            self.send(CallProgress(steps=self._steps, rows=self._rows))
