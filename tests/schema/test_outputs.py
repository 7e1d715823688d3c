"""From a return annotation to structured content."""

from __future__ import annotations

import enum
import inspect
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NoReturn, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from mcptrio.schema.signatures import OutputSchema, encode_value, schema_of


class Block:
    pass


class Image(Block):
    pass


class Kind(enum.Enum):
    A = "a"


@attrs.frozen
class Tree:
    name: str
    children: list[Tree] = attrs.field(factory=list)
    when: datetime | None = None
    _hidden: int = 0


class Typed(TypedDict):
    a: int


@dataclass
class Plain:
    kind: Kind
    price: Decimal


@attrs.frozen
class Keywords:
    default: Plain
    enum: Literal["b", "a"]


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(serialization_alias="theNumber")
    parent: Model | None = None


@pytest.mark.parametrize(
    "annotation",
    [
        inspect.Signature.empty, None, type(None), str, bytes, Any, object, Block, Image, str | None, Block | None,
        str | Block, list[Block], list[object], list[str | Image], tuple[Image, ...], dict[str, Any] | Image,
        Iterator[Block], AsyncIterator[str], Annotated[str, "text"], NoReturn,
    ],
)  # fmt: skip
def test_text_and_content_are_not_structured(annotation: Any) -> None:
    output = OutputSchema.of(annotation, content=(Block,))

    assert output.schema is None
    assert not output.is_structured
    assert not output.is_object


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (bool | None, {"anyOf": [{"type": "boolean"}, {"type": "null"}]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, Any], {"type": "object"}),
        (dict[str, object], {"type": "object"}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Kind, {"type": "string", "enum": ["a"]}),
        (Typed, {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        (datetime, {"type": "string", "format": "date-time"}),
    ],
)
def test_value_types_get_an_output_schema(annotation: Any, schema: dict[str, Any]) -> None:
    output = OutputSchema.of(annotation)

    assert output.schema == schema
    assert output.is_structured
    assert output.is_object == (schema.get("type") == "object")


def test_root_is_inlined_and_recursive_definitions_kept() -> None:
    schema = schema_of(Tree)

    assert schema["type"] == "object"
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["required"] == ["name"]
    assert "_hidden" not in schema["properties"]
    assert "$defs" not in schema_of(Plain) or set(schema_of(Plain)["$defs"]) == {"Kind"}


def test_field_named_like_a_keyword_is_kept() -> None:
    schema = schema_of(Keywords)

    assert schema["properties"]["enum"] == {"type": "string", "enum": ["b", "a"]}
    assert schema["properties"]["default"] == {"$ref": "#/$defs/Plain"}
    assert "Plain" in schema["$defs"]


def test_recursive_model_is_an_object_at_the_root() -> None:
    output = OutputSchema.of(Model)

    assert output.is_object
    assert output.schema is not None
    assert "theNumber" in output.schema["properties"]
    assert output.encode(Model(number=1)) == {"theNumber": 1, "parent": None}


def test_values_are_serialized_as_json() -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)

    assert encode_value([Plain(Kind.A, Decimal("1.5")), {1: {2}}, b"hi", Model(number=1)]) == [
        {"kind": "a", "price": "1.5"},
        {"1": [2]},
        "aGk=",
        {"theNumber": 1, "parent": None},
    ]
    assert OutputSchema.of(Tree).encode(Tree("a", [Tree("b")], when)) == {
        "name": "a",
        "children": [{"name": "b", "children": [], "when": None}],
        "when": "2026-01-02T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, "x", 'expected an integer, got "x"'),
        (int, None, "got null"),
        (list[int], [1, "x"], r"at `\[1\]`"),
        (Tree, {"nam": "x"}, "missing required argument|missing required field"),
        (Annotated[int, msgspec.Meta(ge=3)], 1, ">= 3"),
        (int, object(), "an object cannot be sent as JSON"),
        (Decimal, Decimal("NaN"), "expected the text of a finite decimal number"),
    ],
)
def test_result_that_does_not_match_the_annotation_raises(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        OutputSchema.of(annotation).encode(value)


def test_return_annotation_in_a_string_is_resolved() -> None:
    async def good() -> Tree: ...  # type: ignore[empty-body]
    async def bare(): ...  # type: ignore[no-untyped-def]
    async def lost() -> Missing: ...  # type: ignore[name-defined]  # noqa: F821
    async def odd() -> range: ...  # type: ignore[empty-body]

    assert OutputSchema.of_function(good).is_object
    assert not OutputSchema.of_function(bare).is_structured
    with pytest.raises(TypeError, match=r"lost: return annotation: .*'Missing'"):
        OutputSchema.of_function(lost)
    with pytest.raises(TypeError, match="odd: return annotation: range has no JSON form"):
        OutputSchema.of_function(odd)


def test_private_field_without_default_cannot_be_sent() -> None:
    secret = attrs.make_class("Secret", {"_key": attrs.field(type=int)})

    with pytest.raises(TypeError, match="Secret: the field `_key` is private"):
        schema_of(secret)
