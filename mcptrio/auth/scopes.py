"""Scopes: which scope includes which, and which ones a client asks for.

The resource server expands a token's scopes by what the operator says that they include. A client asks for the scopes
that the server names, and keeps those that it asked for before when it asks for more.

Source: MCP 2026-07-28, basic/authorization, "Scope Selection Strategy", "Step-Up Authorization Flow", "Refresh Tokens"
and "Scope Challenge Handling" (hierarchies); RFC 6749 section 3.3 (syntax).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mcptrio.auth.metadata import ServerMetadata

__all__ = ["OFFLINE", "ScopeHierarchy", "check_scope", "first_scopes", "read_scope", "union", "with_offline"]

_SYNTAX: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")


class ScopeHierarchy:
    """
    Args:
        includes: by scope the narrower ones that it stands for; what these include, it includes too. Two that include
            each other mean the same.

    Raises:
        ValueError: what is named is no scope.
    """

    def __init__(self, includes: Mapping[str, Sequence[str]] | None = None) -> None:
        given = (includes or {}).items()
        direct = {check_scope(scope): [check_scope(each) for each in below] for scope, below in given}
        self._all = {scope: _reached(scope, direct) for scope in direct}

    def expanded(self, scopes: Iterable[str]) -> frozenset[str]:
        """The scopes and all that they include."""
        found: set[str] = set()
        for scope in scopes:
            found |= self._all.get(scope) or {scope}
        return frozenset(found)

    def reduced(self, scopes: Iterable[str]) -> frozenset[str]:
        """As few of the scopes as include all of them: what to ask for."""
        kept = set(scopes)
        for scope in sorted(kept):
            if any(scope in self._all.get(other, ()) for other in kept - {scope}):
                kept.remove(scope)
        return frozenset(kept)


def check_scope(scope: str) -> str:
    """The scope itself.

    Raises:
        ValueError: it is none.
    """
    if not _SYNTAX.fullmatch(scope):
        raise ValueError(f"expected a scope of visible ASCII without quotes and backslashes, got {scope[:40]!r}")
    return scope


def _reached(scope: str, direct: Mapping[str, Sequence[str]]) -> frozenset[str]:
    reached: set[str] = set()
    waiting = [scope]
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting += direct.get(each, ())
    return frozenset(reached)


OFFLINE: Final = "offline_access"
"""Asks for a refresh token (OpenID Connect Core 1.0 section 11)."""

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_MAX_SCOPES: Final = 500
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
    return tuple(dict.fromkeys(scope for scope in scopes if _SCOPE.fullmatch(scope)))[:_MAX_SCOPES]
