"""Protocol classes are frozen values with a history."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest

from mcptrio.protocol.model.base import EmptyResult, Result
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.fields import ABSENT, class_history, evolve, exists_in, field, field_history, model
from mcptrio.protocol.model.logging import LEVELS
from mcptrio.protocol.model.tools import CallToolParams, CallToolResult


@model(tag="kind", since="2025-03-26")
class Base:
    kind: ClassVar[str] = "base"
    first: int = field()
    second: str = field(default="x", since="2025-06-18", until="2026-07-28", name="_second")


@model
class Derived(Base):
    kind: ClassVar[str] = "derived"
    third: dict[str, int] = field(factory=dict)


def test_model_is_frozen_and_slotted() -> None:
    value = Base(first=1)

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        value.first = 2  # type: ignore[misc]
    assert not hasattr(value, "__dict__")


def test_model_fields_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        Base(1)  # type: ignore[misc]
    with pytest.raises(TypeError, match="first"):
        Base()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Base(first=1, fourth=2)  # type: ignore[call-arg]


def test_models_are_equal_by_class_and_fields() -> None:
    assert Base(first=1) == Base(first=1, second="x")
    assert Base(first=1) != Base(first=2)
    assert Base(first=1) != Derived(first=1)
    assert Result() != EmptyResult()
    assert Base(first=1) != 1


def test_models_hash_by_their_fields() -> None:
    assert len({TextContent(text="a"), TextContent(text="a"), TextContent(text="b")}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(CallToolParams(name="x"))


def test_repr_omits_default_values() -> None:
    assert repr(Base(first=1)) == "Base(first=1)"
    assert repr(CallToolResult(is_error=True)) == "CallToolResult(is_error=True)"


def test_default_values_are_not_shared() -> None:
    assert Derived(first=1).third is not Derived(first=1).third


def test_evolve_returns_a_changed_copy() -> None:
    value = Derived(first=1, third={"a": 1})

    assert evolve(value, first=2) == Derived(first=2, third={"a": 1})
    assert value.first == 1


def test_model_class_contains_its_history() -> None:
    second = field_history(attrs.fields(Base).second)

    assert (second.since, second.until, second.name, second.always) == ("2025-06-18", "2026-07-28", "_second", False)
    assert (class_history(Base).tag, class_history(Base).since) == ("kind", "2025-03-26")


def test_derived_class_keeps_the_tag_but_not_since() -> None:
    assert (class_history(Derived).tag, class_history(Derived).since) == ("kind", None)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, True),
        ("2025-06-18", None, True),
        ("2025-06-19", None, False),
        (None, "2025-06-18", False),
        (None, "2025-06-19", True),
        ("2025-03-26", "2026-07-28", True),
    ],
)
def test_since_is_inclusive_and_until_is_not(since: str | None, until: str | None, expected: bool) -> None:
    assert exists_in("2025-06-18", since=since, until=until) is expected


def test_absent_is_false_and_has_a_repr() -> None:
    assert not ABSENT
    assert repr(ABSENT) == "ABSENT"


def test_log_levels_are_ordered() -> None:
    assert (LEVELS[0], LEVELS[-1], len(LEVELS)) == ("debug", "emergency", 8)
