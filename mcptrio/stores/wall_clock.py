"""Seconds on an axis that outlives the process, for ages that are stored.

Used by the SQLite stores. Within a process, and among processes that use a file at the same time, the axis runs as the
system's steady clock does, so setting the wall clock changes no age. Only whoever opens the file alone places it anew.
The one rule: :meth:`WallClock.now` never runs backwards.

Source: PEP 418, "time.monotonic()" (system-wide).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define

__all__ = ["WallClock"]


@define
class WallClock:
    """
    Args:
        wall: seconds since 1970; what it says may be wrong, and change.
        steady: seconds since some moment, the same moment for all processes of this machine.
    """

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    epoch: float = 0.0
    """What the axis says when ``steady`` says 0."""

    def place(self) -> float:
        """Begin the axis at the wall clock's time. Returns the epoch, for :meth:`join`."""
        self.epoch = self.wall() - self.steady()
        return self.epoch

    def join(self, epoch: float) -> None:
        """Go on with an axis that others are using."""
        self.epoch = epoch

    def now(self) -> float:
        return self.epoch + self.steady()
