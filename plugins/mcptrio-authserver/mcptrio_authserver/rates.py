"""How often something may be asked for: attempts counted in windows of time.

Used for logins, registrations, and requests for documents.
The one rule: an attempt is counted before it is tried, so that many at the same time are not one.

There are at most :data:`_MAX_COUNTERS` of a kind. Beyond that the oldest are evicted; an attacker who wants that needs
as many addresses or names.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from mcptrio.net import network_of

from .ledger import Ledger

__all__ = ["Rate", "count_attempt", "forget_attempts", "neighbourhood", "take_back_attempt"]

_MAX_COUNTERS: Final = 20_000


@frozen(kw_only=True)
class Rate:
    """
    Args:
        most: attempts in a window.
        seconds: of the window, which begins with the first attempt.
    """

    kind: str
    most: int
    seconds: float


def count_attempt(ledger: Ledger, rate: Rate, key: str, now: float) -> float:
    """Count one more.

    Returns:
        0 where it may be tried; else seconds until the next one may.
    """
    record = ledger.get(f"rate:{rate.kind}", key)
    count, end = (record["count"], record["end"]) if record is not None else (0, now + rate.seconds)
    if count >= rate.most:
        return max(0.001, float(end) - now)
    ledger.put(f"rate:{rate.kind}", key, {"count": count + 1, "end": end}, until=end, most=_MAX_COUNTERS)
    return 0


def forget_attempts(ledger: Ledger, rate: Rate, key: str) -> None:
    """They were somebody's who may."""
    ledger.delete(f"rate:{rate.kind}", key)


def take_back_attempt(ledger: Ledger, rate: Rate, key: str) -> None:
    """One of them was somebody's who may; the others count on, for as long as before."""
    record = ledger.get(f"rate:{rate.kind}", key)
    if record is not None:
        count, end = max(0, record["count"] - 1), record["end"]
        ledger.put(f"rate:{rate.kind}", key, {"count": count, "end": end}, until=end, most=_MAX_COUNTERS)


def neighbourhood(address: str | None) -> str:
    """What an address counts as: one of IPv6 is its /64, which is the least that one customer gets."""
    return "unknown" if address is None else network_of(address)
