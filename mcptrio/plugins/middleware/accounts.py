"""The account of one caller: its rate, and its quotas for longer periods.

:mod:`mcptrio.plugins.middleware.rate_limit` keeps one per caller. A request counts for the rate and for all quotas; a
refused request counts for none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import trio
from attrs import frozen

from mcptrio.errors import RateLimited
from mcptrio.ground.token_bucket import TokenBucket

__all__ = ["WINDOWS", "Account", "Allowance", "check_cost"]

WINDOWS: Final = {"minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
"""The periods of the quotas, with their seconds."""


@frozen(kw_only=True)
class Allowance:
    """The limits of a caller.

    Args:
        per_second: Requests a second on average.
        burst: Requests that may arrive at once.
        quotas: Requests in each of :data:`WINDOWS`; those that are missing have no limit.
    """

    per_second: float
    burst: int
    quotas: Mapping[str, int]


def check_cost(cost: int, allowance: Allowance) -> None:
    """Check that the cost of one request does not exceed a whole quota.

    Raises:
        RateLimited: A request of this cost exceeds the whole quota of a window.
    """
    # The longest window first, so that retryAfter is long enough for all quotas.
    for window, seconds in reversed(WINDOWS.items()):
        if window in allowance.quotas and cost > allowance.quotas[window]:
            count = allowance.quotas[window]
            raise RateLimited(
                f"the call counts as {cost} requests, more than the whole quota of {count} per {window}",
                retry_after=seconds,
            )


class Account:
    """The account of one caller in this process.

    Args:
        allowance: The limits of the caller.
    """

    __slots__ = ("_allowance", "_bucket", "_used")

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._bucket = TokenBucket(allowance.per_second, allowance.burst)
        self._used: dict[str, tuple[float, int]] = {}
        """For each window, the Trio clock time of its end and the requests counted in it."""

    def spend(self, cost: int) -> None:
        """Count a request.

        Args:
            cost: The number of requests that it counts as.

        Raises:
            RateLimited: The limit is exceeded. The error says when to retry.
        """
        check_cost(cost, self._allowance)
        now = trio.current_time()
        quotas = self._allowance.quotas
        used: dict[str, tuple[float, int]] = {}
        # The longest window last, so that retryAfter is long enough for all quotas.
        refused: tuple[str, float] | None = None
        for window, seconds in WINDOWS.items():
            if window not in quotas:
                continue
            end, spent = self._used.get(window, (0.0, 0))
            if end <= now:
                # A window begins with the caller's first request, so that not all callers return at the same time.
                end, spent = now + seconds, 0
            used[window] = end, spent + cost
            if spent + cost > quotas[window]:
                refused = window, end
        if refused is not None:
            window, end = refused
            at = datetime.now(UTC) + timedelta(seconds=end - now)
            raise RateLimited(
                f"quota of {quotas[window]} requests per {window} exceeded: the next {window} begins at"
                f" {at:%Y-%m-%dT%H:%M:%SZ}",
                retry_after=end - now,
            )
        # A request that costs more than the burst could otherwise never be made.
        tokens = min(cost, self._allowance.burst)
        if not self._bucket.take(tokens):
            raise RateLimited(
                f"too many requests: more than {self._allowance.per_second:g} a second",
                retry_after=self._bucket.wait(tokens),
            )
        # Stored last, because a refused request must not count in any window.
        self._used = used
