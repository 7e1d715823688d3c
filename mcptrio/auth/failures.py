"""How often an address may come with credentials that are not good.

Used by :mod:`mcptrio.auth.resource_server`.
The one rule: only failures count. Nobody is held up for asking without a token, which is how every client begins.

A token bucket an address. There are as many addresses as ``addresses``; past that the one that failed longest ago is
forgotten and may begin anew, which costs an attacker that many addresses. IPv6 addresses count by their /64, which is
the least that one customer gets.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from attrs import define, field, frozen, validators

from mcptrio.errors import RateLimited

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


@define
class _Bucket:
    tokens: float
    then: float


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

    def check(self, address: str | None) -> None:
        """
        Raises:
            RateLimited: the address has failed too often; says when it may try again.
        """
        if not self._rate or address is None:
            return
        bucket = self._buckets.get(_group(address))
        if bucket is not None and (missing := 1 - self._refilled(bucket)) > 0:
            raise RateLimited("too many failed authentications from this address", retry_after=missing / self._rate)

    def count(self, address: str | None) -> None:
        """One more failure."""
        if not self._rate or address is None:
            return
        key = _group(address)
        bucket = self._buckets.pop(key, None) or _Bucket(self._limit.burst, self._clock())
        bucket.tokens = max(0.0, self._refilled(bucket) - 1)
        self._buckets[key] = bucket
        if len(self._buckets) > self._limit.addresses:
            self._buckets.popitem(last=False)

    def __len__(self) -> int:
        return len(self._buckets)

    # Private

    def _refilled(self, bucket: _Bucket) -> float:
        now = self._clock()
        bucket.tokens = min(self._limit.burst, bucket.tokens + (now - bucket.then) * self._rate)
        bucket.then = now
        return bucket.tokens


def _group(address: str) -> str:
    try:
        read = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    if isinstance(read, IPv6Address):
        if read.ipv4_mapped is not None:
            return str(read.ipv4_mapped)
        return str(IPv6Address(int(read) >> 64 << 64))
    return str(read)
