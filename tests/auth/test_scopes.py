"""A broad scope includes the configured narrower ones, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mcptrio.auth.scopes import ScopeHierarchy, check_scope

__all__: list[str] = []

INCLUDES: Mapping[str, Sequence[str]] = {"admin": ["write"], "write": ["read", "list"], "a": ["b"], "b": ["a"]}


@pytest.mark.parametrize(
    ("scopes", "expanded"),
    [
        ((), ()),
        (("read",), ("read",)),
        (("write",), ("write", "read", "list")),
        (("admin", "other"), ("admin", "write", "read", "list", "other")),
        (("a",), ("a", "b")),
        (("adm",), ("adm",)),
    ],
)
def test_scope_includes_the_configured_scopes(scopes: Sequence[str], expanded: Sequence[str]) -> None:
    assert ScopeHierarchy(INCLUDES).expanded(scopes) == frozenset(expanded)


@pytest.mark.parametrize(
    ("scopes", "reduced"),
    [
        (("admin", "read", "list", "write"), ("admin",)),
        (("read", "list"), ("read", "list")),
        (("other", "write", "read"), ("other", "write")),
    ],
)
def test_challenge_omits_scopes_that_others_include(scopes: Sequence[str], reduced: Sequence[str]) -> None:
    assert ScopeHierarchy(INCLUDES).reduced(scopes) == frozenset(reduced)


def test_equivalent_scopes_are_reduced_to_one() -> None:
    assert len(ScopeHierarchy(INCLUDES).reduced({"a", "b"})) == 1


@pytest.mark.parametrize("scope", ["", "a b", 'a"b', "a\\b", "é", "a\n", "x" * 201])
def test_malformed_scope_is_refused(scope: str) -> None:
    with pytest.raises(ValueError, match="expected a scope"):
        check_scope(scope)
    with pytest.raises(ValueError, match="expected a scope"):
        ScopeHierarchy({"admin": [scope]})
