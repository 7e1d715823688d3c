"""Browser sessions: cookies, logged-in users, and tokens that protect forms from forgery.

The page handlers use them. A form token is derived from the cookie and the request, so nothing is stored for browsers
without a login, and a flood of them fills nothing.

Source: OWASP, "Cross-Site Request Forgery Prevention Cheat Sheet" (signed double submit, bound to the session); RFC
6265bis section 4.1.3.2 (``__Host-``); MCP security best practices, "Confused Deputy Problem".
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from .config import Config
from .ledger import Ledger
from .opaque import digest_of, new_opaque
from .users import User

__all__ = [
    "BrowserSession",
    "begin_session",
    "cookie_name",
    "end_session",
    "end_sessions",
    "find_session",
    "form_token",
    "is_form_token",
    "list_sessions",
]

# Browsers of one user; above it, the oldest is logged out.
_MAX_SESSIONS_OF_USER: Final = 20


@frozen(kw_only=True)
class BrowserSession:
    """A logged-in user in one browser."""

    user: str
    auth_time: float


def cookie_name(config: Config) -> str:
    """Return the name of the cookie."""
    # __Host-: no other host and no unencrypted connection can set it.
    if config.addresses.is_https:
        return "__Host-mcptrio-authserver"
    # Browsers send a cookie to all ports of a host (RFC 6265 section 8.5), so another server on this host would replace
    # it.
    return f"mcptrio-authserver-{urlsplit(config.addresses.origin).port or 80}"


def begin_session(ledger: Ledger, config: Config, user: User, now: float) -> str:
    """Start the session of a user; return the new cookie of the browser."""
    # A new cookie at each login, so one that an attacker has set before is useless (session fixation).
    cookie = new_opaque()
    value = {"user": user.name, "auth_time": now, "password": digest_of(user.hash)}
    ledger.put(
        "session",
        digest_of(cookie),
        value,
        until=now + config.session_lifetime,
        group=user.name,
        max_records=_MAX_SESSIONS_OF_USER,
    )
    return cookie


def find_session(ledger: Ledger, cookie: str, users: Mapping[str, User]) -> BrowserSession | None:
    """Return the session of a browser, or ``None``.

    Args:
        cookie: The cookie of the browser.
        users: The current users.
    """
    record = ledger.get("session", digest_of(cookie))
    user = users.get(record["user"]) if record is not None else None
    # A session belongs to the password with which it began: a user with a new password, or one who was removed and
    # added again, is logged out everywhere. A record without a password is from an older version.
    if record is None or user is None or not hmac.compare_digest(record.get("password", ""), digest_of(user.hash)):
        return None
    return BrowserSession(user=user.name, auth_time=record["auth_time"])


def end_session(ledger: Ledger, cookie: str) -> None:
    """Log a browser out."""
    ledger.delete("session", digest_of(cookie))


def list_sessions(ledger: Ledger) -> Sequence[BrowserSession]:
    """Return all sessions that have not ended, the oldest first."""
    records = ledger.list("session")
    return [BrowserSession(user=record["user"], auth_time=record["auth_time"]) for record in records]


def end_sessions(ledger: Ledger, user: str | None = None) -> int:
    """Log one user, or all users, out of all browsers; return the number of sessions."""
    return ledger.delete_group("session", user)


def form_token(cookie: str, query: str, form: str) -> str:
    """Return the token of a form, valid in one browser and for one request.

    Args:
        cookie: The cookie of the browser.
        query: The query of the authorization request.
        form: The name of the form.
    """
    return hmac.digest(cookie.encode(), f"{form}\0{query}".encode(), "sha256").hex()


def is_form_token(token: str, cookie: str, query: str, form: str) -> bool:
    return hmac.compare_digest(token.encode(), form_token(cookie, query, form).encode())
