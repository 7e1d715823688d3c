"""Access to the console: one-time links, sessions of browsers, and access tokens.

Only digests of links and cookies are kept. Nothing here outlives the process.
"""

from __future__ import annotations

import math
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
        request: has presented the access token.
        recheck_at: Trio time at which the access token must be verified again.
        form_token: every form repeats it, so that no other page can send one.
        notes: results of actions that the next page shows.
    """

    name: str
    principal: Principal | None
    ends: float
    request: RequestHead | None = field(default=None, repr=False)
    recheck_at: float = math.inf
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

    async def visitor_of(self, cookie: str | None) -> Visitor | None:
        """Return the session of a browser; ``None`` if it is unknown or has expired, or its access token has."""
        key = _digest(cookie or "")
        visitor = self._visitors.get(key)
        if visitor is not None and (visitor.ends <= trio.current_time() or not await self._has_access(visitor)):
            self._visitors.pop(key, None)
            return None
        return visitor

    def redeem(self, token: str, address: str | None) -> str | None:
        """Return a new cookie for the token of the link, which is then used up; ``None`` if it is another one."""
        if not compare_digest(_digest(token), self._link):
            return None
        cookie = self._admit(Visitor(f"the link, from {address or 'this machine'}", None, _end()))
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
        recheck_at = trio.current_time() + self._guard.recheck_after(principal)
        return self._admit(Visitor(principal.subject, principal, _end(), request, recheck_at))

    def leave(self, cookie: str | None) -> None:
        """End the session of a browser."""
        self._visitors.pop(_digest(cookie or ""), None)

    async def _has_access(self, visitor: Visitor) -> bool:
        if self._guard is None or visitor.request is None or visitor.principal is None:
            return True
        if trio.current_time() >= visitor.recheck_at:
            try:
                visitor.principal = await self._guard.recheck(visitor.request, visitor.principal)
            except (AuthorizationError, Overloaded):
                return False
            visitor.recheck_at = trio.current_time() + self._guard.recheck_after(visitor.principal)
        return True

    def _admit(self, visitor: Visitor) -> str:
        cookie = secrets.token_urlsafe(32)
        self._visitors[_digest(cookie)] = visitor
        while len(self._visitors) > _MAX_VISITORS:
            self._visitors.popitem(last=False)
        return cookie


def _end() -> float:
    return trio.current_time() + _VISIT_SECONDS


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
