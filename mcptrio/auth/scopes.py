"""Which scope includes which.

Used by :mod:`mcptrio.auth.resource_server`, where a token's scopes are read and where more are asked for.
The one rule: what a scope includes is said by the operator, and never guessed from how it is spelled.

Source: MCP 2026-07-28, basic/authorization, "Scope Challenge Handling" (hierarchies); RFC 6749 section 3.3 (syntax).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

__all__ = ["ScopeHierarchy", "check_scope"]

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")


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
    if not _SCOPE.fullmatch(scope):
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
