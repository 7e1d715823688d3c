"""A rate limit for failed authentications, by client address.

The resource server uses it. Only failures count, so requests without a token, with which every client begins, are not
limited. Each address has a token bucket.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import trio
from attrs import define, field, frozen, validators

from mcptrio.errors import RateLimited
from mcptrio.ground.networks import network_of

__all__ = ["FailureLimit", "Failures"]


@frozen(kw_only=True)
class FailureLimit:
    """How many failed authentications an address may cause.

    Args:
        per_minute: Failures of one address per minute, on average; 0 for no limit.
        burst: Failures that may come at once.
        addresses: Addresses that are remembered.
    """

    per_minute: float = field(default=30.0, validator=validators.ge(0))
    burst: int = field(default=30, validator=validators.ge(1))
    addresses: int = field(default=10_000, validator=validators.ge(1))


@define(eq=False)
class _Bucket:
    tokens: float
    refilled_at: float
    # Failures that attempts in progress have reserved.
    reserved: int = 0
    waiting: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)


class Failures:
    """The token buckets of all addresses.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, limit: FailureLimit, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._rate = limit.per_minute / 60
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    async def begin(self, address: str | None) -> Callable[[], None]:
        """Begin an authentication attempt, which reserves one failure of its address until it ends.

        At most as many attempts run concurrently as may fail. A further one waits for an attempt to end, so valid
        credentials are not rejected because they arrive together.

        Args:
            address: The client's address; ``None`` is not limited.

        Returns:
            A function that ends the attempt. The caller counts a failure before its next checkpoint.

        Raises:
            RateLimited: The address has failed too often; ``retry_after`` has the seconds to wait.
        """
        if not self._rate or address is None:
            return _do_nothing
        # IPv6 addresses count by their /64, the smallest block that providers assign to a customer.
        bucket = self._buckets.get(key := network_of(address))
        if bucket is None:
            bucket = self._store(key, _Bucket(self._limit.burst, self._clock()))
        while (missing := 1 + bucket.reserved - self._refill(bucket)) > 0:
            if not bucket.reserved:
                # No attempt is left whose end would wake the other waiting tasks.
                bucket.waiting.unpark_all()
                raise RateLimited("too many failed authentications from this address", retry_after=missing / self._rate)
            await bucket.waiting.park()
        bucket.reserved += 1
        return partial(self._end, key, bucket)

    def count(self, address: str | None) -> None:
        """Count one failure."""
        if not self._rate or address is None:
            return
        key = network_of(address)
        # Removed and added again, so the order is by the latest failure.
        bucket = self._buckets.pop(key, None) or _Bucket(self._limit.burst, self._clock())
        bucket.tokens = max(0.0, self._refill(bucket) - 1)
        self._store(key, bucket)

    def __len__(self) -> int:
        return len(self._buckets)

    # Private

    def _end(self, key: str, bucket: _Bucket) -> None:
        bucket.reserved -= 1
        bucket.waiting.unpark()
        if not bucket.reserved and self._refill(bucket) >= self._limit.burst and self._buckets.get(key) is bucket:
            # Clients with valid credentials must not evict addresses that have failed.
            del self._buckets[key]

    def _store(self, key: str, bucket: _Bucket) -> _Bucket:
        self._buckets[key] = bucket
        # Evicts the address whose failure is oldest. To profit, an attacker needs as many addresses as the table has
        # entries.
        if len(self._buckets) > self._limit.addresses:
            self._buckets.popitem(last=False)
        return bucket

    def _refill(self, bucket: _Bucket) -> float:
        now = self._clock()
        bucket.tokens = min(self._limit.burst, bucket.tokens + (now - bucket.refilled_at) * self._rate)
        bucket.refilled_at = now
        return bucket.tokens


def _do_nothing() -> None:
    """End an attempt that reserved no failure."""
