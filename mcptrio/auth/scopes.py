"""Scopes: which scopes include others, and which scopes a client requests.

The resource server expands the scopes of a token by the hierarchy that the operator configures. A client requests the
scopes that the server names; when it requests more, it keeps those of earlier requests.

Source: MCP 2026-07-28, basic/authorization, "Scope Selection Strategy", "Step-Up Authorization Flow", "Refresh Tokens"
and "Scope Challenge Handling" (hierarchies); RFC 6749 section 3.3 (syntax).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mcptrio.auth.metadata import ServerMetadata

__all__ = ["OFFLINE", "ScopeHierarchy", "check_scope", "first_scopes", "read_scope", "union", "with_offline"]

# RFC 6749 section 3.3; the length is bounded because a configuration or a request names the scope.
_SYNTAX: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")


class ScopeHierarchy:
    """A table of the scopes that include narrower scopes.

    Args:
        includes: The narrower scopes that each scope includes, by scope. Inclusion is transitive. Two scopes that
            include each other are equivalent.

    Raises:
        ValueError: A name is not a valid scope.
    """

    def __init__(self, includes: Mapping[str, Sequence[str]] | None = None) -> None:
        inclusions = (includes or {}).items()
        direct = {check_scope(scope): [check_scope(each) for each in below] for scope, below in inclusions}
        self._all = {scope: _with_included(scope, direct) for scope in direct}

    def expanded(self, scopes: Iterable[str]) -> frozenset[str]:
        """Return the scopes together with all scopes that they include."""
        all_scopes: set[str] = set()
        for scope in scopes:
            all_scopes |= self._all.get(scope) or {scope}
        return frozenset(all_scopes)

    def reduced(self, scopes: Iterable[str]) -> frozenset[str]:
        """Return the fewest scopes that include all of ``scopes``, for a request or a challenge."""
        kept = set(scopes)
        # Sorted, so the result does not depend on the order of a set when two scopes are equivalent.
        for scope in sorted(kept):
            if any(scope in self._all.get(other, ()) for other in kept - {scope}):
                kept.remove(scope)
        return frozenset(kept)


def check_scope(scope: str) -> str:
    """Return the scope if its syntax is valid.

    Raises:
        ValueError: The scope is empty, too long, or contains a character that scopes may not contain.
    """
    if not _SYNTAX.fullmatch(scope):
        raise ValueError(f"expected a scope of visible ASCII without quotes and backslashes, got {scope[:40]!r}")
    return scope


def _with_included(scope: str, direct: Mapping[str, Sequence[str]]) -> frozenset[str]:
    reached: set[str] = set()
    waiting = [scope]
    while waiting:
        each = waiting.pop()
        if each not in reached:
            reached.add(each)
            waiting += direct.get(each, ())
    return frozenset(reached)


OFFLINE: Final = "offline_access"
"""The scope that requests a refresh token (OpenID Connect Core 1.0 section 11)."""

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
# Bounds the work for a list from another machine; further scopes are dropped.
_MAX_SCOPES: Final = 500


def read_scope(value: str | None) -> tuple[str, ...]:
    """Return the scopes of a space-separated list, as in challenges and tokens. Invalid scopes are left out."""
    return _clean((value or "").split(" "))


def first_scopes(
    *, challenged: tuple[str, ...], supported: tuple[str, ...] | None, wanted: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Return the scopes of the first authorization request.

    The challenge takes precedence over the scopes that the resource supports; those that the program wants are added to
    it.

    Args:
        challenged: Scopes of the server's challenge.
        supported: Scopes of the resource metadata; ``None`` if it lists none.
        wanted: Scopes that the program configures.

    Returns:
        The scopes, or ``None`` if the ``scope`` parameter is left out of the request.
    """
    if challenged:
        return union(challenged, wanted)
    # The program's choice replaces the list of all supported scopes: a union would request more than the program needs.
    return _clean(wanted or supported or ()) or None


def with_offline(scopes: tuple[str, ...] | None, server: ServerMetadata) -> tuple[str, ...] | None:
    """Add ``offline_access`` if the authorization server supports it, to obtain a refresh token."""
    # Without a scope parameter the server chooses the scopes; offline_access alone would replace its choice.
    if scopes and OFFLINE in (server.scopes_supported or ()):
        return union(scopes, (OFFLINE,))
    return scopes


def union(*lists: Iterable[str]) -> tuple[str, ...]:
    """Return all scopes once, in the order of their first occurrence."""
    return _clean(scope for each in lists for scope in each)


def _clean(scopes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scope for scope in scopes if _SCOPE.fullmatch(scope)))[:_MAX_SCOPES]
