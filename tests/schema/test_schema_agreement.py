"""The schema and the conversion of an annotation accept the same values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from decimal import Decimal
from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import attrs
import jsonschema_rs
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.errors import InvalidParams
from mcptrio.schema.signatures import Arguments, OutputSchema, encode_value
from mcptrio.schema.validation import Validator


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Point:
    x: int
    y: float = 0.0
    color: Color = Color.RED


class Options(TypedDict):
    deep: bool
    level: NotRequired[Level]


class Pair(NamedTuple):
    left: str
    right: int | None = None


@dataclass
class Kept:
    x: int = 0
    _level: int = 0
    deep: bool = field(default=False, init=False)


class Sealed(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    max_size: int = 0


@attrs.frozen
class Basket:
    x: Decimal
    k: frozenset[int] = frozenset()


scalars = st.sampled_from(
    [
        int, str, float, bool, None, Color, Level, Literal["a", "b"], Literal[1, 2], Literal["a", 1] | None,
        Annotated[int, msgspec.Meta(ge=0, lt=3)], Annotated[str, msgspec.Meta(min_length=1, max_length=2)],
        Annotated[float, msgspec.Meta(gt=-1, le=2)], Annotated[str, "only described"], Any, Decimal,
        set[int], frozenset[str], Annotated[set[bool | int], "described"], set[tuple[int, ...]],
    ]
)  # fmt: skip
classes = st.sampled_from([Point, Options, Pair, Kept, Sealed, Basket])
annotations = st.recursive(
    scalars | classes,
    lambda inner: st.one_of(
        inner.map(lambda item: list[item]),
        inner.map(lambda item: Annotated[list[item], msgspec.Meta(max_length=2)]),
        inner.map(lambda item: dict[str, item]),
        inner.map(lambda item: tuple[item, ...]),
        st.tuples(inner, inner).map(lambda items: tuple[items]),
        inner.map(lambda item: item | None if item is not None else None),
    ),
    max_leaves=4,
)
unions = st.sampled_from(
    [
        int | str,
        int | list[int],
        str | bool | None,
        Color | int,
        Point | list[Point],
        float | str,
        Decimal | int,
        Decimal | float | None,
        set[int] | str,
        Basket | None,
    ]
)

words = st.sampled_from(["a", "b", "red", "blue", "", "abc", "1", "é", "-.5e3", "NaN", "1_0"])
numbers = st.integers(-1, 3) | st.sampled_from([0.0, 1.0, 2.0, 0.5, -1.0, 1.5, 2**70])
keys = st.sampled_from(["x", "y", "color", "deep", "level", "_level", "maxSize", "max_size", "k"])
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


def taking(annotation: Any) -> Arguments:
    def function(value: Any) -> None: ...

    function.__annotations__["value"] = annotation
    return Arguments.of(function)


def agree(arguments: Arguments, given_arguments: dict[str, Any]) -> None:
    shown = jsonschema_rs.Draft202012Validator(arguments.schema).is_valid(given_arguments)
    refusal = ""
    try:
        arguments.convert(given_arguments)
    except InvalidParams as error:
        refusal = error.message

    assert shown == (not refusal), (arguments.schema, given_arguments, refusal)
    assert shown or " at `" in refusal or " argument `" in refusal


@settings(max_examples=200)
@given(annotations | unions, values)
def test_conversion_accepts_exactly_the_values_of_the_schema(annotation: Any, value: Any) -> None:
    agree(taking(annotation), {"value": value})


@settings(max_examples=200)
@given(st.data())
def test_valid_values_are_accepted_by_schema_and_conversion(data: st.DataObject) -> None:
    """The values are drawn for the annotation, so that not only refusals are compared."""
    made: dict[Any, st.SearchStrategy[Any]] = {
        Point: st.fixed_dictionaries({"x": st.integers()}, optional={"y": st.integers(0, 3), "color": st.just("red")}),
        Options: st.fixed_dictionaries({"deep": st.booleans()}, optional={"level": st.sampled_from([1, 2.0])}),
        Pair: st.tuples(words, st.none() | st.integers()).map(list),
        Kept: st.fixed_dictionaries({}, optional={"x": st.integers(0, 3), "_level": st.just(7), "deep": st.just(True)}),
        Sealed: st.fixed_dictionaries({}, optional={"maxSize": st.integers() | st.just(3.0)}),
        int | str: words | st.integers(),
        list[Color] | None: st.none() | st.lists(st.sampled_from(["red", "blue"])),
    }
    annotation = data.draw(st.sampled_from(list(made)))
    value = data.draw(made[annotation])
    arguments = taking(annotation)

    agree(arguments, {"value": value})
    converted = arguments.convert({"value": value})
    # An accepted value can be serialized, and is accepted again as an equal value.
    assert arguments.convert({"value": encode_value(converted["value"])}) == converted
    sent = OutputSchema.of(GenericAlias(dict, (str, annotation)))
    assert sent.schema is not None
    assert jsonschema_rs.Draft202012Validator(sent.schema).is_valid(sent.encode(converted))


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "A", ""]), values, max_size=3))
def test_conversion_accepts_exactly_the_argument_names_of_the_schema(given_arguments: dict[str, Any]) -> None:
    def function(a: int, b: str | None = None, *, c: Any = ...) -> None: ...

    agree(Arguments.of(function), given_arguments)


@settings(max_examples=300)
@given(annotations | unions, values)
def test_every_generated_schema_is_accepted_by_the_validator(annotation: Any, value: Any) -> None:
    arguments = taking(annotation)

    shown = jsonschema_rs.Draft202012Validator(arguments.schema).is_valid({"value": value})
    taken = True
    try:
        Validator(arguments.schema).validate({"value": value})
    except InvalidParams:
        taken = False

    assert taken == shown
