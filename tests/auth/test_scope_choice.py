"""The scopes that a client requests."""

from __future__ import annotations

import pytest

from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.scopes import first_scopes, read_scope, union, with_offline

__all__: list[str] = []

Scopes = tuple[str, ...]


@pytest.mark.parametrize(
    ("challenged", "supported", "wanted", "chosen"),
    [
        (("a",), ("a", "b", "c"), (), ("a",)),
        (("z",), ("a",), (), ("z",)),
        (("a",), None, ("b", "a"), ("a", "b")),
        ((), ("a", "b"), (), ("a", "b")),
        ((), ("a", "b"), ("b",), ("b",)),
        ((), None, (), None),
        ((), (), (), None),
        ((), None, ("b",), ("b",)),
    ],
)
def test_first_request_uses_challenged_or_configured_or_supported_scopes(
    challenged: Scopes, supported: Scopes | None, wanted: Scopes, chosen: Scopes | None
) -> None:
    assert first_scopes(challenged=challenged, supported=supported, wanted=wanted) == chosen


@pytest.mark.parametrize(
    ("scopes", "supported", "chosen"),
    [
        (("a",), ("a", "offline_access"), ("a", "offline_access")),
        (("a", "offline_access"), ("offline_access",), ("a", "offline_access")),
        (("a",), ("a",), ("a",)),
        (("a",), None, ("a",)),
        (None, ("offline_access",), None),
    ],
)
def test_offline_access_is_requested_only_if_the_server_supports_it(
    scopes: Scopes | None, supported: Scopes | None, chosen: Scopes | None
) -> None:
    assert with_offline(scopes, ServerMetadata(issuer="https://x.example", scopes_supported=supported)) == chosen


def test_union_of_scopes_keeps_their_order() -> None:
    assert union(("b", "a"), ("a", "c"), ("b",)) == ("b", "a", "c")


@pytest.mark.parametrize(
    ("value", "scopes"),
    [
        (None, ()),
        ("", ()),
        ("  a   b a ", ("a", "b")),
        ('a "b" c\\ d\n e\x7f files:read', ("a", "files:read")),
        ("a" * 10 + " \u00fc", ("a" * 10,)),
    ],
)
def test_scope_list_is_parsed(value: str | None, scopes: Scopes) -> None:
    assert read_scope(value) == scopes


def test_scope_list_is_limited() -> None:
    assert len(read_scope(" ".join(map(str, range(10_000))))) == 500
