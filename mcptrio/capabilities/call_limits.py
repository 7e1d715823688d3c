"""The operator's limits on the calls of one plugin: concurrency, rate and time. Each call checks them."""

from __future__ import annotations

from mcptrio.errors import RateLimited
from mcptrio.ground.token_bucket import TokenBucket
from mcptrio.runtime.fair_limiter import FairLimiter

__all__ = ["CallLimits"]


class CallLimits:
    """The operator's limits on the calls of one plugin.

    Args:
        owner: The plugin's name, for messages.
        timeout: Seconds for one call, from its start.
        concurrency: Calls at the same time; further calls wait. A call counts until its code has ended.
        rate: Calls per second. The same number of calls, but at least one, may arrive at once.
    """

    def __init__(
        self,
        owner: str,
        *,
        timeout: float | None = None,
        concurrency: int | None = None,
        rate: float | None = None,
    ) -> None:
        self._owner = owner
        self.timeout = timeout
        self.limiter = FairLimiter(concurrency) if concurrency is not None else None
        self._rate = rate
        self._bucket: TokenBucket | None = None
        """Made at the first call."""

    def check_rate(self) -> None:
        """Count a call.

        Raises:
            RateLimited: There are more calls per second than allowed. The error has the time of the next attempt.
        """
        if self._rate is None:
            return
        # Not made in __init__, because the bucket needs the Trio clock, which is not running while plugins are loaded.
        if self._bucket is None:
            self._bucket = TokenBucket(self._rate, max(1.0, self._rate))
        if not self._bucket.take():
            raise RateLimited(
                f"too many calls of {self._owner}: more than {self._rate:g} a second", retry_after=self._bucket.wait()
            )
