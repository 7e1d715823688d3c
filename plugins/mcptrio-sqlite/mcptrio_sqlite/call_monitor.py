"""Reports the progress of a call to the server, and stops the call when the server orders it.

The child process creates a CallMonitor for each call. Code that may run for long calls :meth:`CallMonitor.check` at
intervals. SQLite calls :meth:`CallMonitor.on_progress` as its progress handler.

Source: sqlite.org/c3ref/progress_handler.html, sqlite.org/c3ref/interrupt.html.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from attrs import define, field

from .frames import JobProgress, Message, StatementEnded

__all__ = ["STEPS_PER_CHECK", "CallMonitor", "CallStopped"]

STEPS_PER_CHECK: Final = 5_000
"""Steps of SQLite's virtual machine between two calls of the progress handler: about a tenth of a millisecond."""
_ROWS_PER_CHECK: Final = 256
_PROGRESS_INTERVAL: Final = 0.4
"""Seconds between two progress reports to the server."""


class CallStopped(BaseException):
    """The call was stopped. Not an ``Exception``, so that no handler treats it as a failure."""


@define(eq=False)
class CallMonitor:
    """The state of one call. Other threads may only call :meth:`stop`."""

    send: Callable[[Message], None]
    connection: sqlite3.Connection | None = None
    _is_stopped: bool = field(init=False, default=False)
    _steps: int = field(init=False, default=0)
    _rows: int = field(init=False, default=0)
    _reported_at: float = field(init=False, factory=time.monotonic)

    def stop(self) -> None:
        """Stop the current SQLite operation, and make later calls of :meth:`check` raise."""
        # Set first, because interrupt() has no effect between two statements; there, check() stops the call.
        self._is_stopped = True
        connection = self.connection
        if connection is not None:
            with suppress(sqlite3.Error):  # already closed
                connection.interrupt()

    def check(self) -> None:
        """Raise CallStopped if the call was stopped."""
        if self._is_stopped:
            raise CallStopped

    def on_progress(self) -> int:
        """SQLite's progress handler; a nonzero result interrupts SQLite."""
        self._steps += STEPS_PER_CHECK
        self._report_progress()
        return int(self._is_stopped)

    def count_row(self) -> None:
        """Count one row, and check for a stop at intervals.

        Raises:
            CallStopped: The call was stopped.
        """
        self._rows += 1
        # Many short statements or rows may never reach the progress handler's interval.
        if self._rows % _ROWS_PER_CHECK == 0:
            self._report_progress()
            self.check()

    def report_statement_ended(self) -> None:
        """Report that the statement has ended. COMMIT, ROLLBACK and closing may take longer and are not stopped."""
        self.send(StatementEnded())

    def _report_progress(self) -> None:
        now = time.monotonic()
        if now - self._reported_at > _PROGRESS_INTERVAL:
            self._reported_at = now
            self.send(JobProgress(steps=self._steps, rows=self._rows))
