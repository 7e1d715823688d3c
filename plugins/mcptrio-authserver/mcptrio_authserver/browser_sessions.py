"""Browsers: their cookie, whether somebody is logged in there, and the tokens that keep forms from being forged.

The one rule: a form counts only in the browser that it was shown in, and for the very request it was shown for. The
token of a form is made of the cookie, which no other site knows, and of the request's query; so nothing is kept of
browsers where nobody is logged in, and no flood of them fills anything.

A browser gets another cookie when somebody logs in, so that nobody can have given it one before. Who gets another
password, or is removed and added anew, is logged out everywhere: a session belongs to the password it began with.

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

_MAX_SESSIONS_OF_USER: Final = 20
"""Browsers of one user; past that the oldest has to log in again."""


@frozen(kw_only=True)
class BrowserSession:
    """Somebody who is logged in."""

    user: str
    auth_time: float


def cookie_name(config: Config) -> str:
    """With https one that no other host and no plain connection can have set. Otherwise with the port in it: browsers
    send a cookie to all ports of a host (RFC 6265 section 8.5), and another server there would replace ours."""
    if config.addresses.is_https:
        return "__Host-mcptrio-authserver"
    return f"mcptrio-authserver-{urlsplit(config.addresses.origin).port or 80}"


def begin_session(ledger: Ledger, config: Config, user: User, now: float) -> str:
    """Somebody has logged in. The browser's new cookie."""
    cookie = new_opaque()
    value = {"user": user.name, "auth_time": now, "password": digest_of(user.hash)}
    ledger.put(
        "session",
        digest_of(cookie),
        value,
        until=now + config.session_lifetime,
        group=user.name,
        most=_MAX_SESSIONS_OF_USER,
    )
    return cookie


def find_session(ledger: Ledger, cookie: str, users: Mapping[str, User]) -> BrowserSession | None:
    """Who is logged in there.

    Args:
        users: as they are now.
    """
    record = ledger.get("session", digest_of(cookie))
    user = users.get(record["user"]) if record is not None else None
    # A record without a password was made by an older version.
    if record is None or user is None or not hmac.compare_digest(record.get("password", ""), digest_of(user.hash)):
        return None
    return BrowserSession(user=user.name, auth_time=record["auth_time"])


def end_session(ledger: Ledger, cookie: str) -> None:
    """They have logged out."""
    ledger.delete("session", digest_of(cookie))


def list_sessions(ledger: Ledger) -> Sequence[BrowserSession]:
    """All sessions that have not ended, the oldest first."""
    records = ledger.list("session")
    return [BrowserSession(user=record["user"], auth_time=record["auth_time"]) for record in records]


def end_sessions(ledger: Ledger, user: str | None = None) -> int:
    """Log one user, or all users, out of all browsers. The number of sessions."""
    return ledger.delete_group("session", user)


def form_token(cookie: str, query: str, form: str) -> str:
    """
    Args:
        query: of the authorization request that the form belongs to.
        form: which form of the page it is.
    """
    return hmac.digest(cookie.encode(), f"{form}\0{query}".encode(), "sha256").hex()


def is_form_token(token: str, cookie: str, query: str, form: str) -> bool:
    return hmac.compare_digest(token.encode(), form_token(cookie, query, form).encode())
