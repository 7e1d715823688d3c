"""A clock for stored ages that survives a restart and ignores changes to the wall clock.

The SQLite stores use it. Processes that use a file at the same time share one epoch and advance with the system's
monotonic clock; only a process that opens the file alone sets the epoch from the wall clock.

Source: PEP 418, "time.monotonic()" (system-wide).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import define

__all__ = ["WallClock"]


@define
class WallClock:
    """Seconds since 1970, approximately, that never run backwards while a process uses them.

    Args:
        wall: Returns seconds since 1970; may be wrong or be set.
        steady: Returns monotonic seconds that are the same for all processes of this machine.
        epoch: The time at which ``steady`` is 0.
    """

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    epoch: float = 0.0

    def place(self) -> float:
        """Set the epoch from the wall clock and return it, for :meth:`join` in other processes."""
        self.epoch = self.wall() - self.steady()
        return self.epoch

    def join(self, epoch: float) -> None:
        """Use the epoch of other processes."""
        self.epoch = epoch

    def now(self) -> float:
        return self.epoch + self.steady()
