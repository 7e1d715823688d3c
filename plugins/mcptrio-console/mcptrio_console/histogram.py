"""A histogram of durations with a fixed number of ranges, from a tenth of a millisecond to about five hours."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from typing import Final

from attrs import define, field

__all__ = ["Histogram"]

_FIRST: Final = 1e-4
_FACTOR: Final = 1.3
"""The ratio of the bounds of a range. A percentile is exact to half of a range, 15 %."""
_RANGES: Final = 72
_LOG: Final = math.log(_FACTOR)


@define(eq=False)
class Histogram:
    """Counts durations in seconds."""

    counts: list[int] = field(factory=lambda: [0] * _RANGES)

    def add(self, seconds: float) -> None:
        position = 0 if seconds <= _FIRST else min(_RANGES - 1, 1 + int(math.log(seconds / _FIRST) / _LOG))
        self.counts[position] += 1

    def merge(self, other: Histogram) -> None:
        self.counts = [own + others for own, others in zip(self.counts, other.counts, strict=True)]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def percentile(self, share: float) -> float | None:
        """Return the duration that this share of all durations does not exceed; ``None`` if there are none."""
        total = self.total
        if not total:
            return None
        position = bisect_left(list(accumulate(self.counts)), share * total)
        # The middle of the range, on its logarithmic scale.
        return _FIRST * _FACTOR ** (position - 0.5) if position else _FIRST
