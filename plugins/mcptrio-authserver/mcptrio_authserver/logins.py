"""Rate limits of logins with a password: by user, by address, and by both.

Five wrong passwords from one address do not lock out the user at another address.

Source: OWASP, "Authentication Cheat Sheet", "Protect Against Automated Attacks"; NIST SP 800-63B section 5.2.2.
"""

from __future__ import annotations

from typing import Final

from .config import Config
from .ledger import Ledger
from .opaque import digest_of
from .rates import Rate, address_key, count_attempt, forget_attempts, take_back_attempt

__all__ = ["count_login", "forgive_login"]

# Factor of the limits for one user from all addresses, and for one address with all names.
_WIDE_FACTOR: Final = 10


def count_login(ledger: Ledger, config: Config, name: str, address: str | None, now: float) -> float:
    """Count an attempt before the password is checked.

    Returns:
        0 if it may be made; otherwise the seconds until the next one may.
    """
    for rate, key in _counters(config, name, address):
        if (wait := count_attempt(ledger, rate, key, now)) > 0:
            return wait
    return 0


def forgive_login(ledger: Ledger, config: Config, name: str, address: str | None) -> None:
    """Reset the counter of user and address after a successful login, and reduce the others by one."""
    wide_address, narrow, wide_user = _counters(config, name, address)
    forget_attempts(ledger, *narrow)
    take_back_attempt(ledger, *wide_address)
    take_back_attempt(ledger, *wide_user)


def _counters(config: Config, name: str, address: str | None) -> list[tuple[Rate, str]]:
    source = address_key(address)
    # Users sometimes type a password into the name field, so only a digest is stored.
    user = digest_of(name)
    narrow, wide = config.login_attempts, config.login_attempts * _WIDE_FACTOR
    # The order matters: an attempt that one counter rejects is not counted by the next, so no one address can lock a
    # user out everywhere.
    return [
        (Rate(kind="login-address", max_attempts=wide, seconds=config.login_window), source),
        (Rate(kind="login", max_attempts=narrow, seconds=config.login_window), f"{user} {source}"),
        (Rate(kind="login-user", max_attempts=wide, seconds=config.login_window), user),
    ]
