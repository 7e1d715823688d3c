"""Which scopes to ask for.

Used by :mod:`mcptrio.auth.client_oauth` and the other grants.
The one rule: no more than the server says this takes, or the program wants; what was asked for before is kept, so that
a step up is never a step aside.

Source: MCP 2026-07-28, basic/authorization, "Scope Selection Strategy", "Step-Up Authorization Flow" and "Refresh
Tokens"; RFC 6749 section 3.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mcptrio.auth.metadata import ServerMetadata

__all__ = ["OFFLINE", "first_scopes", "read_scope", "union", "with_offline"]

OFFLINE: Final = "offline_access"
"""Asks for a refresh token (OpenID Connect Core 1.0 section 11)."""

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_MOST: Final = 500
"""Scopes of one list; those beyond are dropped."""


def read_scope(value: str | None) -> tuple[str, ...]:
    """A list with blanks between, as challenges and tokens have it; what is no scope is left out."""
    return _clean((value or "").split(" "))


def first_scopes(
    *, challenged: tuple[str, ...], supported: tuple[str, ...] | None, wanted: tuple[str, ...]
) -> tuple[str, ...] | None:
    """What to ask for at first: what the challenge says, else all the resource supports; and what the program wants.

    Returns:
        ``None`` where the parameter is left out.
    """
    if challenged:
        return union(challenged, wanted)
    # Not both: the program knows better than a list of all there is.
    return _clean(wanted or supported or ()) or None


def with_offline(scopes: tuple[str, ...] | None, server: ServerMetadata) -> tuple[str, ...] | None:
    """The same, and a refresh token, where the server knows the word.

    Where no scope is asked for the server chooses them; ``offline_access`` alone would take that choice away.
    """
    if scopes and OFFLINE in (server.scopes_supported or ()):
        return union(scopes, (OFFLINE,))
    return scopes


def union(*lists: Iterable[str]) -> tuple[str, ...]:
    """All of them once, in the order in which they first come."""
    return _clean(scope for each in lists for scope in each)


def _clean(scopes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scope for scope in scopes if _SCOPE.fullmatch(scope)))[:_MOST]
