"""How far a call is, and whether it is to stop.

Made by the child for one call. The one rule: whoever computes for long asks :meth:`Watch.check` now and then; SQLite
itself does so by its progress handler.

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
"""Steps of SQLite's machine between two looks at whether the call is to stop; about a tenth of a millisecond."""
_ROWS: Final = 256
_PROGRESS_INTERVAL: Final = 0.4
"""Seconds between two words to the server about how far it is."""


class CallStopped(BaseException):
    """The call is to stop. No ``Exception``, so nothing takes it for a failure."""


@define(eq=False)
class Watch:
    """One call. Another thread may call :meth:`stop`, and nothing else."""

    tell: Callable[[Message], None]
    connection: sqlite3.Connection | None = None
    _is_stopped: bool = field(init=False, default=False)
    _steps: int = field(init=False, default=0)
    _rows: int = field(init=False, default=0)
    _reported_at: float = field(init=False, factory=time.monotonic)

    def stop(self) -> None:
        """Have it stop: what SQLite does at the moment, and whatever looks at :meth:`check` later."""
        self._is_stopped = True
        connection = self.connection
        if connection is not None:
            with suppress(sqlite3.Error):  # it is closed already
                connection.interrupt()

    def check(self) -> None:
        """
        Raises:
            Stopped: the call is to stop.
        """
        if self._is_stopped:
            raise CallStopped

    def step(self) -> int:
        """SQLite's progress handler; anything but 0 makes SQLite stop."""
        self._steps += STEPS
        self._tell_progress()
        return int(self._is_stopped)

    def row(self) -> None:
        """One more row. Rows that SQLite hands out quickly take few steps.

        Raises:
            Stopped: the call is to stop.
        """
        self._rows += 1
        if self._rows % _ROWS == 0:
            self._tell_progress()
            self.check()

    def turn(self) -> None:
        """The statement is at its end; what follows (COMMIT, undoing, closing) may take longer and is not stopped."""
        self.tell(Turn())

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if now - self._reported_at > _PROGRESS_INTERVAL:
            self._reported_at = now
            self.tell(CallProgress(steps=self._steps, rows=self._rows))
