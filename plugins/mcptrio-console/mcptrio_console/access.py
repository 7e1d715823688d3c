"""Access to the console: one-time links, sessions of browsers, and access tokens.

Only digests of links and cookies are kept. Nothing here outlives the process.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from typing import Final

import trio
from attrs import define, field

from mcptrio.abc import Guard, Principal, RequestHead
from mcptrio.errors import AuthorizationError, Overloaded

__all__ = ["ConsoleAccess", "Visitor"]

_MAX_VISITORS: Final = 16
_VISIT_SECONDS: Final = 12 * 3600.0
_MAX_TOKEN_CHARS: Final = 16 * 1024
_MAX_NOTES: Final = 4


@define(eq=False)
class Visitor:
    """The session of a browser.

    Args:
        name: for the audit log.
        principal: the user of an access token; ``None`` if a link opened the console.
        form_token: every form repeats it, so that no other page can send one.
        notes: results of actions that the next page shows.
    """

    name: str
    principal: Principal | None
    ends: float
    form_token: str = field(factory=lambda: secrets.token_urlsafe(24))
    notes: deque[str] = field(factory=lambda: deque(maxlen=_MAX_NOTES))


class ConsoleAccess:
    """
    Args:
        announce: called with each new token of a link.
        guard: verifies access tokens.
        scope: that an access token needs.
    """

    def __init__(self, announce: Callable[[str], None], guard: Guard | None, scope: str | None) -> None:
        self._announce = announce
        self._guard = guard if scope is not None else None
        self._scope = scope
        self._link = b""
        self._visitors: OrderedDict[bytes, Visitor] = OrderedDict()

    @property
    def takes_tokens(self) -> bool:
        """Whether an access token opens the console."""
        return self._guard is not None

    def renew_link(self) -> None:
        """Replace the link by a new one."""
        token = secrets.token_urlsafe(32)
        self._link = _digest(token)
        self._announce(token)

    def visitor_of(self, cookie: str | None) -> Visitor | None:
        """Return the session of a browser; ``None`` if it is unknown or has expired."""
        key = _digest(cookie or "")
        visitor = self._visitors.get(key)
        if visitor is not None and visitor.ends <= trio.current_time():
            del self._visitors[key]
            return None
        return visitor

    def redeem(self, token: str, address: str | None) -> str | None:
        """Return a new cookie for the token of the link, which is then used up; ``None`` if it is another one."""
        if not compare_digest(_digest(token), self._link):
            return None
        cookie = self._admit(f"the link, from {address or 'this machine'}", None, _VISIT_SECONDS)
        self.renew_link()
        return cookie

    async def sign_in(self, token: str, request: RequestHead) -> str | None:
        """Return a new cookie for an access token with the scope of the console; ``None`` if it is not accepted.

        Args:
            request: of the form; its headers have the token as ``Authorization``.
        """
        if self._guard is None or len(token) > _MAX_TOKEN_CHARS:
            return None
        try:
            principal = await self._guard.admit(request)
        except (AuthorizationError, Overloaded):
            return None
        if principal is None or self._scope not in principal.scopes:
            return None
        return self._admit(principal.subject, principal, min(_VISIT_SECONDS, self._guard.recheck_after(principal)))

    def leave(self, cookie: str | None) -> None:
        """End the session of a browser."""
        self._visitors.pop(_digest(cookie or ""), None)

    def _admit(self, name: str, principal: Principal | None, seconds: float) -> str:
        cookie = secrets.token_urlsafe(32)
        self._visitors[_digest(cookie)] = Visitor(name, principal, trio.current_time() + seconds)
        while len(self._visitors) > _MAX_VISITORS:
            self._visitors.popitem(last=False)
        return cookie


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
