"""The account of one caller over all replicas: its rate and its quotas for longer times, in the shared store.

:mod:`mcptrio.plugins.middleware.rate_limit` keeps one per caller if the server shares its stores. The counters are in
the store. This process remembers the last refusal, and has counters of its own for failures of the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import trio
from attrs import frozen

from mcptrio.errors import RateLimited
from mcptrio.plugins.middleware.accounts import WINDOWS, Account, Allowance, check_cost
from mcptrio.plugins.middleware.shared_quotas import SharedQuotas

__all__ = ["SharedAccount"]


@frozen
class _Limit:
    """A quota, as the store takes one request of a certain cost from it.

    Args:
        window: A key of :data:`WINDOWS`, or ``second`` for the rate.
        count, seconds, burst: The parameters of :meth:`mcptrio.abc.QuotaStore.take`.
        refusal: The message of the error, without the time of the next request.
    """

    window: str
    count: int
    seconds: float
    burst: int
    refusal: str


@frozen
class _Refusal:
    """A refused request, and the Trio clock time until which requests of the same or a higher cost are refused."""

    limit: _Limit
    cost: int
    until: float


class SharedAccount:
    """The account of one caller in the store that all replicas share.

    Args:
        allowance: The limits of the caller.
        name: The name of the caller, the same on every replica.
        quotas: The quotas of the server.
    """

    __slots__ = ("_allowance", "_local", "_name", "_quotas", "_refused")

    def __init__(self, allowance: Allowance, name: str, quotas: SharedQuotas) -> None:
        self._allowance = allowance
        self._name = name
        self._quotas = quotas
        self._refused: _Refusal | None = None
        self._local: tuple[int, Account] | None = None
        """The number of replicas, and the account with this replica's part of the limits, for failures of the store."""

    async def spend(self, cost: int) -> None:
        """Count a request.

        Args:
            cost: The number of requests that it counts as.

        Raises:
            RateLimited: The limit is exceeded. The error says when to retry.
        """
        check_cost(cost, self._allowance)
        # Refused here, because a repeated request would use up the shorter quotas.
        if (refused := self._refused) is not None and cost >= refused.cost:
            if (remaining := refused.until - trio.current_time()) > 0:
                raise _error(refused.limit, remaining)
            self._refused = None
        for limit in self._limits(cost):
            wait = await self._quotas.take(
                f"rate_limit:{self._name}:{limit.window}", count=limit.count, seconds=limit.seconds, burst=limit.burst
            )
            if wait is None:
                self._spend_local(cost)
                return
            if wait > 0:
                self._refused = _Refusal(limit, cost, trio.current_time() + wait)
                raise _error(limit, wait)

    # Private

    def _limits(self, cost: int) -> Iterator[_Limit]:
        """Yield the rate, and then the quotas, the shortest first.

        What a request takes from them before a longer quota refuses it is lost, but the shortest refill soonest.
        """
        allowance = self._allowance
        # A request that costs more than the burst could otherwise never be made.
        tokens = min(cost, allowance.burst)
        too_many = f"too many requests: more than {allowance.per_second:g} a second"
        yield _Limit("second", 1, tokens / allowance.per_second, allowance.burst // tokens, too_many)
        for window, seconds in WINDOWS.items():
            if window in allowance.quotas:
                count = allowance.quotas[window]
                used_up = f"quota of {count} requests per {window} exceeded: the next request is possible at"
                # A request that costs three is counted as one, at a third of the rate.
                yield _Limit(window, count, seconds * cost, count // cost, used_up)

    def _spend_local(self, cost: int) -> None:
        """Count a request with this replica's own counters, because the store fails."""
        allowance, replicas = self._allowance, self._quotas.replicas
        # The account is kept while the store works. Otherwise each new failure of the store would grant a full burst
        # and full quotas.
        if self._local is None or self._local[0] != replicas:
            part = Allowance(
                per_second=allowance.per_second / replicas,
                burst=max(1, allowance.burst // replicas),
                quotas={window: max(1, count // replicas) for window, count in allowance.quotas.items()},
            )
            self._local = replicas, Account(part)
        self._local[1].spend(cost)


def _error(limit: _Limit, wait: float) -> RateLimited:
    if limit.window == "second":
        return RateLimited(limit.refusal, retry_after=wait)
    at = datetime.now(UTC) + timedelta(seconds=wait)
    return RateLimited(f"{limit.refusal} {at:%Y-%m-%dT%H:%M:%SZ}", retry_after=wait)
