"""Arguments in a slightly wrong form: values that are repaired, and values that are never changed."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from mcptrio.errors import InvalidParams
from mcptrio.schema.argument_repair import repair_arguments
from mcptrio.schema.signatures import Arguments


@frozen
class Edit:
    old: str
    count: int = 1


def take(
    number: int = 0,
    ratio: float = 0.0,
    flag: bool = False,
    names: list[str] = [],  # noqa: B006
    edits: list[Edit] = [],  # noqa: B006
    edit: Edit | None = None,
    either: str | int = "",
    maybe: int | None = None,
    mapping: dict[str, int] = {},  # noqa: B006
    kind: Literal["a", "b"] = "a",
    pair: list[int] | dict[str, int] = [],  # noqa: B006
    name: str = "",
    note: Annotated[str, Meta(max_length=3)] | None = None,
    code: Literal["1", "2"] = "1",
    data: bytes = b"",
    day: date | None = None,
) -> None: ...


TAKEN = Arguments.of(take)


@pytest.mark.parametrize(
    ("written", "repaired", "places"),
    [
        ({"number": "3"}, {"number": 3}, ["number"]),
        ({"number": " -12 "}, {"number": -12}, ["number"]),
        ({"ratio": "2.5"}, {"ratio": 2.5}, ["ratio"]),
        ({"ratio": "2"}, {"ratio": 2}, ["ratio"]),
        ({"flag": "true"}, {"flag": True}, ["flag"]),
        ({"names": "a.txt"}, {"names": ["a.txt"]}, ["names"]),
        ({"names": "[1"}, {"names": ["[1"]}, ["names"]),
        ({"names": '["a", "b"]'}, {"names": ["a", "b"]}, ["names"]),
        ({"edits": '[{"old": "x", "count": "2"}]'}, {"edits": [{"old": "x", "count": 2}]}, ["edits", "edits[0].count"]),
        ({"edits": {"old": "x"}}, {"edits": [{"old": "x"}]}, ["edits"]),
        ({"edit": '{"old": "x"}'}, {"edit": {"old": "x"}}, ["edit"]),
        ({"maybe": "4"}, {"maybe": 4}, ["maybe"]),
        ({"mapping": '{"a": 1}'}, {"mapping": {"a": 1}}, ["mapping"]),
        ({"mapping": {"a": "1"}}, {"mapping": {"a": 1}}, ["mapping.a"]),
        ({"pair": "[1]"}, {"pair": [1]}, ["pair"]),
        ({"number": None}, {}, ["number"]),
        ({"name": 3}, {"name": "3"}, ["name"]),
        ({"name": -(10**15) + 1}, {"name": "-999999999999999"}, ["name"]),
        ({"note": 0}, {"note": "0"}, ["note"]),
        ({"code": 2}, {"code": "2"}, ["code"]),
        ({"names": [1, "b"]}, {"names": ["1", "b"]}, ["names[0]"]),
        ({"edit": {"old": 3}}, {"edit": {"old": "3"}}, ["edit.old"]),
    ],
)
def test_value_with_one_meaning_is_repaired(
    written: dict[str, Any], repaired: dict[str, Any], places: list[str]
) -> None:
    assert repair_arguments(written, TAKEN.schema) == (repaired, places)
    assert TAKEN.convert(repaired).keys() == repaired.keys()


@pytest.mark.parametrize(
    "written",
    [
        {"number": "three"},
        {"number": "3.5"},
        {"number": "0x10"},
        {"number": "9" * 30},
        {"number": True},
        {"number": [3]},
        {"flag": "yes"},
        {"flag": 1},
        {"names": 3},
        {"either": "3"},
        {"maybe": None},
        {"kind": "c"},
        {"edit": "x"},
        {"pair": 3},
        {"unknown": "3"},
        {"name": 10**15},
        {"name": True},
        {"name": 2.0},
        {"name": ["a"]},
        {"either": True},
        {"data": 1234},
        {"day": 20240101},
    ],
)
def test_value_without_a_single_meaning_stays(written: dict[str, Any]) -> None:
    assert repair_arguments(written, TAKEN.schema) == (written, [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["old", "count", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(TAKEN.names)), JSON, max_size=4))
def test_accepted_arguments_are_never_changed(written: dict[str, Any]) -> None:
    try:
        TAKEN.convert(written)
    except InvalidParams:
        return
    repaired, _ = repair_arguments(written, TAKEN.schema)

    assert TAKEN.convert(repaired) == TAKEN.convert(written)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3), JSON)
def test_repair_never_raises_for_any_schema(written: dict[str, Any], schema: Any) -> None:
    properties = {name: schema if isinstance(schema, dict) else {} for name in written}
    repaired, _ = repair_arguments(written, {"type": "object", "properties": properties})

    assert repaired.keys() <= written.keys()


def test_reference_to_itself_ends() -> None:
    loop = {"$ref": "#/$defs/loop"}
    schema = {"type": "object", "properties": {"a": loop}, "$defs": {"loop": {"anyOf": [loop, loop]}}}

    assert repair_arguments({"a": "3"}, schema) == ({"a": "3"}, [])
