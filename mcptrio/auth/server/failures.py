"""How often an address may come with credentials that are not good.

Used by :mod:`mcptrio.auth.server.resource_server`.
The one rule: only failures count, and each attempt is taken for one until it ends. Nobody is held up for asking without
a token, which is how every client begins.

A token bucket an address. There are as many addresses as ``addresses``; past that the one that failed longest ago is
forgotten and may begin anew, which costs an attacker that many addresses. IPv6 addresses count by their /64, which is
the least that one customer gets.
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
    """
    Args:
        per_minute: failures of one address, on average; 0 for no bound.
        burst: as many may come at once.
        addresses: how many are remembered.
    """

    per_minute: float = field(default=30.0, validator=validators.ge(0))
    burst: int = field(default=30, validator=validators.ge(1))
    addresses: int = field(default=10_000, validator=validators.ge(1))


@define(eq=False)
class _Bucket:
    tokens: float
    then: float
    held: int = 0
    """Attempts that have begun and not ended."""
    waiting: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)


class Failures:
    """
    Args:
        clock: seconds that do not run backwards.
    """

    def __init__(self, limit: FailureLimit, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._rate = limit.per_minute / 60
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    async def begin(self, address: str | None) -> Callable[[], None]:
        """Begin an attempt, which holds one failure of its address until it ends.

        So no more attempts run at the same time than may fail. One more waits until another ends: good credentials are
        not refused for coming together.

        Returns:
            A function that ends the attempt. The caller counts its failure, if any, before the next checkpoint.

        Raises:
            RateLimited: the address has failed too often; says when it may try again.
        """
        if not self._rate or address is None:
            return _nothing
        bucket = self._buckets.get(key := network_of(address))
        if bucket is None:
            bucket = self._keep(key, _Bucket(self._limit.burst, self._clock()))
        while (missing := 1 + bucket.held - self._refilled(bucket)) > 0:
            if not bucket.held:
                bucket.waiting.unpark_all()  # there is no attempt left whose end would wake the others
                raise RateLimited("too many failed authentications from this address", retry_after=missing / self._rate)
            await bucket.waiting.park()
        bucket.held += 1
        return partial(self._end, key, bucket)

    def count(self, address: str | None) -> None:
        """One more failure."""
        if not self._rate or address is None:
            return
        key = network_of(address)
        bucket = self._buckets.pop(key, None) or _Bucket(self._limit.burst, self._clock())
        bucket.tokens = max(0.0, self._refilled(bucket) - 1)
        self._keep(key, bucket)

    def __len__(self) -> int:
        return len(self._buckets)

    # Private

    def _end(self, key: str, bucket: _Bucket) -> None:
        bucket.held -= 1
        bucket.waiting.unpark()
        if not bucket.held and self._refilled(bucket) >= self._limit.burst and self._buckets.get(key) is bucket:
            del self._buckets[key]  # so that good credentials take no room from addresses that have failed

    def _keep(self, key: str, bucket: _Bucket) -> _Bucket:
        self._buckets[key] = bucket
        if len(self._buckets) > self._limit.addresses:
            self._buckets.popitem(last=False)
        return bucket

    def _refilled(self, bucket: _Bucket) -> float:
        now = self._clock()
        bucket.tokens = min(self._limit.burst, bucket.tokens + (now - bucket.then) * self._rate)
        bucket.then = now
        return bucket.tokens


def _nothing() -> None:
    """Ends an attempt that held nothing."""
