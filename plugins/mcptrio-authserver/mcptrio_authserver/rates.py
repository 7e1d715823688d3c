"""Rate limits: attempts counted in time windows.

Logins, registrations, upstream logins and document requests use them. An attempt is counted before it is made, so
parallel attempts count too.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from mcptrio.net import network_of

from .ledger import Ledger

__all__ = ["Rate", "address_key", "count_attempt", "forget_attempts", "take_back_attempt"]

# Counters of one kind. When full, the oldest is evicted; an attacker needs as many addresses or names to cause that.
_MAX_COUNTERS: Final = 20_000


@frozen(kw_only=True)
class Rate:
    """A rate limit.

    Args:
        kind: The name of the limit.
        max_attempts: Attempts in a window.
        seconds: Length of the window, which begins with the first attempt.
    """

    kind: str
    max_attempts: int
    seconds: float


def count_attempt(ledger: Ledger, rate: Rate, key: str, now: float) -> float:
    """Count an attempt.

    Returns:
        0 if it may be made; otherwise the seconds until the next one may.
    """
    record = ledger.get(f"rate:{rate.kind}", key)
    count, end = (record["count"], record["end"]) if record is not None else (0, now + rate.seconds)
    if count >= rate.max_attempts:
        return max(0.001, float(end) - now)
    ledger.put(f"rate:{rate.kind}", key, {"count": count + 1, "end": end}, until=end, max_records=_MAX_COUNTERS)
    return 0


def forget_attempts(ledger: Ledger, rate: Rate, key: str) -> None:
    """Reset a counter after a successful attempt."""
    ledger.delete(f"rate:{rate.kind}", key)


def take_back_attempt(ledger: Ledger, rate: Rate, key: str) -> None:
    """Subtract one successful attempt; the others count until the window ends."""
    record = ledger.get(f"rate:{rate.kind}", key)
    if record is not None:
        count, end = max(0, record["count"] - 1), record["end"]
        ledger.put(f"rate:{rate.kind}", key, {"count": count, "end": end}, until=end, max_records=_MAX_COUNTERS)


def address_key(address: str | None) -> str:
    """Return the key of an address: for IPv6 its /64, the smallest block that providers assign to a customer."""
    return "unknown" if address is None else network_of(address)
