"""Logging in with a name and a password, so often and not more.

The one rule: an attempt is counted before the password is looked at, for the user, for the address, and for both; only
a good password takes its count back.

Who floods locks himself out soon and a user hardly ever: five wrong passwords from one address do not keep the user out
who comes from another.

Source: OWASP, "Authentication Cheat Sheet", "Protect Against Automated Attacks"; NIST SP 800-63B section 5.2.2.
"""

from __future__ import annotations

from typing import Final

from .config import Config
from .ledger import Ledger
from .opaque import digest_of
from .rates import Rate, count_attempt, forget_attempts, neighbourhood, take_back_attempt

__all__ = ["count_login", "forgive_login"]

_WIDER: Final = 10


def count_login(ledger: Ledger, config: Config, name: str, address: str | None, now: float) -> float:
    """Count an attempt.

    Returns:
        0 where it may be made; else seconds until the next one may.
    """
    for rate, key in _counters(config, name, address):
        if (wait := count_attempt(ledger, rate, key, now)) > 0:
            return wait
    return 0


def forgive_login(ledger: Ledger, config: Config, name: str, address: str | None) -> None:
    """It was the user: no failure of theirs from there counts, and this attempt does not count for others."""
    wide_address, narrow, wide_user = _counters(config, name, address)
    forget_attempts(ledger, *narrow)
    take_back_attempt(ledger, *wide_address)
    take_back_attempt(ledger, *wide_user)


def _counters(config: Config, name: str, address: str | None) -> list[tuple[Rate, str]]:
    place = neighbourhood(address)
    # By digest: somebody types a password into the wrong field one day.
    user = digest_of(name)
    narrow, wide = config.login_attempts, config.login_attempts * _WIDER
    # In this order: what one has stopped is not counted by the next, so nobody locks a user out from one place.
    return [
        (Rate(kind="login-address", most=wide, seconds=config.login_window), place),
        (Rate(kind="login", most=narrow, seconds=config.login_window), f"{user} {place}"),
        (Rate(kind="login-user", most=wide, seconds=config.login_window), user),
    ]
