"""A clock for stored times, which continues after a restart and ignores changes to the wall clock.

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
    """Approximate seconds since 1970 that never run backwards while a process uses the clock.

    Args:
        wall: Returns seconds since 1970. It may be wrong, and may be set.
        monotonic: Returns monotonic seconds that are the same for all processes of this machine.
        epoch: The time at which ``monotonic`` is 0.
    """

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    epoch: float = 0.0

    def set_epoch(self) -> float:
        """Set the epoch from the wall clock and return it, for :meth:`use_epoch` in other processes."""
        self.epoch = self.wall() - self.monotonic()
        return self.epoch

    def use_epoch(self, epoch: float) -> None:
        """Use the epoch of other processes."""
        self.epoch = epoch

    def now(self) -> float:
        return self.epoch + self.monotonic()
