"""Access to the console: one-time links, browser sessions, and access tokens.

Only digests of links and cookies are stored, and only in the memory of the process.
"""

from __future__ import annotations

import logging
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

_log = logging.getLogger("mcptrio.auth")

_MAX_VISITORS: Final = 16
_VISIT_SECONDS: Final = 12 * 3600.0
_MAX_TOKEN_CHARS: Final = 16 * 1024
_MAX_NOTES: Final = 4


@define(eq=False)
class Visitor:
    """The session of a browser.

    Args:
        name: The name of the operator in the audit log.
        principal: The user of an access token; ``None`` if a link has opened the console.
        ends: Trio clock time at which the session expires.
        request: The request that has presented the access token.
        recheck_at: Trio clock time at which the access token must be verified again.
        form_token: A token that every form repeats, so that no other page can send a form.
        notes: Results of actions, which the next page shows.
    """

    name: str
    principal: Principal | None
    ends: float
    request: RequestHead | None = field(default=None, repr=False)
    recheck_at: float = math.inf
    form_token: str = field(factory=lambda: secrets.token_urlsafe(24))
    notes: deque[str] = field(factory=lambda: deque(maxlen=_MAX_NOTES))


class ConsoleAccess:
    """The link, the browser sessions and the access tokens that open the console.

    Args:
        announce: Called with each new token of the link.
        guard: Verifies access tokens.
        scope: The scope that an access token needs.
    """

    def __init__(self, announce: Callable[[str], None], guard: Guard | None, scope: str | None) -> None:
        self._announce = announce
        self._guard = guard if scope is not None else None
        self._scope = scope
        self._link = b""
        self._visitors: OrderedDict[bytes, Visitor] = OrderedDict()

    @property
    def accepts_tokens(self) -> bool:
        """True if an access token can open the console."""
        return self._guard is not None

    def renew_link(self) -> None:
        """Replace the link by a new one, and announce it."""
        token = secrets.token_urlsafe(32)
        self._link = _digest(token)
        self._announce(token)

    async def visitor_of(self, cookie: str | None) -> Visitor | None:
        """Return the session of a browser; ``None`` if there is none, or it or its access token has expired."""
        key = _digest(cookie or "")
        visitor = self._visitors.get(key)
        if visitor is not None and (visitor.ends <= trio.current_time() or not await self._has_access(visitor)):
            self._visitors.pop(key, None)
            return None
        return visitor

    def redeem(self, token: str, address: str | None) -> str | None:
        """Return a new cookie for the token of the link, and replace the link; ``None`` for another token."""
        if not compare_digest(_digest(token), self._link):
            return None
        cookie = self._admit(Visitor(f"the link, from {address or 'this machine'}", None, _end()))
        self.renew_link()
        return cookie

    async def sign_in(self, token: str, request: RequestHead) -> str | None:
        """Return a new cookie for an access token with the scope of the console; ``None`` if the token is refused.

        Args:
            request: The request of the form, with the token in the header ``Authorization``.
        """
        if self._guard is None or len(token) > _MAX_TOKEN_CHARS:
            return None
        try:
            principal = await self._guard.admit(request)
        except (AuthorizationError, Overloaded):
            return None
        if principal is None or self._scope not in principal.scopes:
            _log.info("sign-in refused: expected a token with the scope %s, got one without it", self._scope)
            return None
        recheck_at = trio.current_time() + self._guard.recheck_after(principal)
        return self._admit(Visitor(principal.subject, principal, _end(), request, recheck_at))

    def sign_out(self, cookie: str | None) -> None:
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
