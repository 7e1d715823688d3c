"""Forms: from a type to a flat schema, and from the answer to a value."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from mcptrio.errors import InvalidParams
from mcptrio.schema.elicitation_forms import ElicitationForm


class Color(enum.Enum):
    DARK_RED = "red"
    BLUE = "blue"


class Same(enum.Enum):
    a = "a"
    b = "b"


COLORS = [{"const": "red", "title": "Dark red"}, {"const": "blue", "title": "Blue"}]
Email = Annotated[str, msgspec.Meta(extra_json_schema={"format": "email"})]


@attrs.frozen
class Everything:
    """Everything.

    Args:
        name: What you are called.
    """

    name: str
    age: Annotated[int, msgspec.Meta(ge=0, lt=150, title="Age", description="in years")] = 3
    ratio: Annotated[float, msgspec.Meta(le=1)] = 0.5
    sure: bool = False
    mail: Email = "a@b.example"
    day: date | None = None
    at: datetime | None = None
    color: Color = Color.BLUE
    colors: list[Color] = attrs.field(factory=list)
    letters: Annotated[list[Literal["x", "y"]], msgspec.Meta(min_length=1)] = attrs.field(factory=lambda: ["x"])
    code: Annotated[str, msgspec.Meta(pattern="^[A-Z]+$", max_length=4)] = "A"


class Typed(TypedDict):
    a: int
    b: NotRequired[str]


class Row(NamedTuple):
    a: int
    b: str = "q"


@dataclass
class Plain:
    a: int
    b: str | None

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a must not be negative")


class Camel(msgspec.Struct, rename="camel"):
    my_field: int
    other_field: str | None


class Model(pydantic.BaseModel):
    a: int = pydantic.Field(alias="theA")
    color: Color = Color.BLUE
    note: str | None = None


class Nested(msgspec.Struct):
    inner: Plain


def refuse(form: ElicitationForm, content: Any) -> str:
    with pytest.raises(InvalidParams) as caught:
        form.convert(content)
    return caught.value.message


def test_every_kind_of_field_becomes_a_form_field() -> None:
    assert ElicitationForm.of(Everything).schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "What you are called."},
            "age": {
                "type": "integer", "minimum": 0, "maximum": 149, "title": "Age", "default": 3,
                "description": "in years",
            },
            "ratio": {"type": "number", "maximum": 1, "default": 0.5},
            "sure": {"type": "boolean", "default": False},
            "mail": {"type": "string", "format": "email", "default": "a@b.example"},
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "color": {"type": "string", "oneOf": COLORS, "default": "blue"},
            "colors": {"type": "array", "items": {"anyOf": COLORS}, "default": []},
            "letters": {
                "type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "minItems": 1, "default": ["x"],
            },
            "code": {"type": "string", "maxLength": 4, "default": "A"},
        },
        "required": ["name"],
    }  # fmt: skip


def test_answer_is_converted_to_the_class() -> None:
    form = ElicitationForm.of(Everything)
    answer = {
        "name": "n", "age": 4.0, "ratio": 1, "sure": True, "day": "2026-01-02", "at": "2026-01-02T03:04:05Z",
        "color": "red", "colors": ["red", "blue"], "letters": ["y"], "mail": "c@d.example", "code": "XY", "unasked": 1,
    }  # fmt: skip

    assert form.convert(answer) == Everything(
        "n", 4, 1.0, True, "c@d.example", date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        Color.DARK_RED, [Color.DARK_RED, Color.BLUE], ["y"], "XY",
    )  # fmt: skip
    assert form.convert({"name": "n"}) == Everything("n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "missing required field `name`"),
        (None, "expected an object, got null"),
        ([], "expected an object, got an array"),
        ({"name": 1}, "expected a string at `name`, got 1"),
        ({"name": None}, "expected a string at `name`, got null"),
        ({"name": "n", "age": "4"}, 'expected an integer at `age`, got "4"'),
        ({"name": "n", "age": 150}, "expected a number <= 149 at `age`, got 150"),
        ({"name": "n", "sure": "yes"}, 'expected a boolean at `sure`, got "yes"'),
        ({"name": "n", "mail": "nobody"}, 'expected a string in the format email at `mail`, got "nobody"'),
        ({"name": "n", "day": "2026-02-30"}, 'expected a string in the format date at `day`, got "2026-02-30"'),
        ({"name": "n", "at": "2026-01-01"}, 'expected a string in the format date-time at `at`, got "2026-01-01"'),
        ({"name": "n", "color": "green"}, 'expected one of "red", "blue" at `color`, got "green"'),
        ({"name": "n", "colors": ["red", "x"]}, 'expected one of "red", "blue" at `colors[1]`, got "x"'),
        ({"name": "n", "letters": []}, "expected an array of at least 1 item at `letters`, got an array"),
        ({"name": "n", "letters": ["z"]}, 'expected one of "x", "y" at `letters[0]`, got "z"'),
        ({"name": "n", "code": "abc"}, "expected a string matching regex '^[A-Z]+$' at `code`, got \"abc\""),
        ({"name": "n", "code": "ABCDE"}, 'expected a string of at most 4 characters at `code`, got "ABCDE"'),
    ],
)
def test_invalid_answer_is_refused(content: Any, message: str) -> None:
    assert refuse(ElicitationForm.of(Everything), content) == message


@pytest.mark.parametrize(
    ("cls", "required", "content", "made"),
    [
        (Typed, ["a"], {"a": 1}, {"a": 1}),
        (Row, ["a"], {"a": 1}, Row(1)),
        (Row, ["a"], {"b": "x", "a": 1.0}, Row(1, "x")),
        (Plain, ["a"], {"a": 1}, Plain(1, None)),
        (Plain, ["a"], {"a": 1, "b": "x"}, Plain(1, "x")),
        (Camel, ["myField"], {"myField": 1}, Camel(1, None)),
        (Model, ["theA"], {"theA": 1, "color": "red"}, Model(theA=1, color=Color.DARK_RED)),
    ],
)
def test_classes_of_every_kind_become_forms(cls: Any, required: list[str], content: Any, made: Any) -> None:
    form = ElicitationForm.of(cls)

    assert form.schema["required"] == required
    assert form.convert(content) == made


def test_error_of_the_class_refuses_the_answer() -> None:
    assert refuse(ElicitationForm.of(Plain), {"a": -1}) == "a must not be negative, got an object"


def test_enum_of_a_model_has_titles() -> None:
    assert ElicitationForm.of(Model).schema["properties"]["color"] == {
        "type": "string",
        "oneOf": COLORS,
        "default": "blue",
    }


@pytest.mark.parametrize(
    ("annotation", "field", "given", "made"),
    [
        (str, {"type": "string"}, "x", "x"),
        (int, {"type": "integer"}, 2.0, 2),
        (float, {"type": "number"}, 2, 2.0),
        (bool, {"type": "boolean"}, True, True),
        (date, {"type": "string", "format": "date"}, "2026-01-02", date(2026, 1, 2)),
        (Email, {"type": "string", "format": "email"}, "a@b.example", "a@b.example"),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}, 1, 1),
        (Annotated[int, msgspec.Meta(gt=3)], {"type": "integer", "minimum": 4}, 4, 4),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "a", "a"),
        (Color, {"type": "string", "oneOf": COLORS}, "red", Color.DARK_RED),
        (Same, {"type": "string", "enum": ["a", "b"]}, "b", Same.b),
        (list[Color], {"type": "array", "items": {"anyOf": COLORS}}, ["red"], [Color.DARK_RED]),
        (list[Same], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, [], []),
        (["x", "y"], {"type": "string", "enum": ["x", "y"]}, "y", "y"),
        (("x",), {"type": "string", "enum": ["x"]}, "x", "x"),
        ({"x": "The X"}, {"type": "string", "oneOf": [{"const": "x", "title": "The X"}]}, "x", "x"),
        ({"type": "object"}, {"type": "string", "oneOf": [{"const": "type", "title": "object"}]}, "type", "type"),
    ],
)
def test_single_value_becomes_the_field_value(annotation: Any, field: dict[str, Any], given: Any, made: Any) -> None:
    form = ElicitationForm.of(annotation)

    assert form.schema == {
        "type": "object",
        "properties": {"value": {"title": "Answer", **field}},
        "required": ["value"],
    }
    assert form.convert({"value": given}) == made
    assert type(form.convert({"value": given})) is type(made)
    assert refuse(form, {}) == "missing required field `value`"
    assert "at `value`" in refuse(form, {"value": {"nested": 1}})


def test_optional_field_can_be_omitted() -> None:
    form = ElicitationForm.of(str | None)

    assert form.schema == {"type": "object", "properties": {"value": {"title": "Answer", "type": "string"}}}
    assert form.convert({}) is None
    assert form.convert({"value": "x"}) == "x"


def test_prepared_schema_is_unchanged() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "^a", "x-more": 1},
            "b": {"type": "string", "enum": ["x"], "enumNames": ["The X"]},
            "c": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "maxItems": 1},
            "d": {"type": "string", "format": "email"},
        },
        "required": ["a"],
    }
    form = ElicitationForm.of(schema)

    assert form.schema == schema
    assert form.convert({"a": "ab", "c": ["x"]}) == {"a": "ab", "c": ["x"]}
    assert refuse(form, {"a": "b"}) == "expected a string that matches '^a' at `a`, got \"b\""
    assert refuse(form, {"a": "a", "b": "y"}) == 'expected one of "x" at `b`, got "y"'
    assert refuse(form, {"a": "a", "c": ["x", "x"]}) == "expected an array of at most 1 item at `c`, got an array"
    assert "format email" in refuse(form, {"a": "a", "d": "d"})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (attrs.make_class("Holder", {"deep": attrs.field(type=Everything)}), "field `deep`: .*`object` is none"),
        (Nested, "field `inner`"),
        (msgspec.defstruct("Rows", [("rows", list[Plain])]), "field `rows`: .*must be an Enum or a Literal"),
        (msgspec.defstruct("Tags", [("tags", list[str])]), "field `tags`: .*must be an Enum or a Literal"),
        (msgspec.defstruct("Both", [("both", int | str)]), "field `both`: expected one type, got a union"),
        (msgspec.defstruct("Blob", [("blob", bytes)]), "field `blob`: .*contentEncoding"),
        (msgspec.defstruct("Some", [("some", Any)]), "field `some`"),
        (msgspec.defstruct("Numbers", [("number", Literal[1, 2])]), "field `number`: .*strings, got 1"),
        (msgspec.defstruct("Even", [("n", Annotated[int, msgspec.Meta(multiple_of=2)])]), "field `n`: .*multipleOf"),
        (attrs.make_class("Empty", {}), "Empty: a form needs at least one field"),
        (dict[str, str], "field `value`"),
        (list[str], "field `value`"),
        (Annotated[float, msgspec.Meta(gt=3)], "field `value`: .*exclusiveMinimum"),
        (enum.IntEnum("Level", "LOW HIGH"), "field `value`: .*strings"),
        (Callable[[], int], "field `value`: Callable has no JSON form"),
        (None, "field `value`: .*`null`"),
        ([], "1 to 1000 different choices, got 0"),
        (["a", "a"], "different choices"),
        ([1], "strings, got 1"),
        ({"a": 1}, "strings, got 1"),
        ([str(n) for n in range(1_001)], "got 1001"),
        ({"type": "array", "properties": {}}, 'of type "object", got "array"'),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, 'field `a`: .*got "object"'),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "field `a`: .*got none"),
        ({"type": "object", "properties": {"a": 1}}, "field `a`: expected a schema, got 1"),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}, "field `a`"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}, "a form cannot ask for this"),
    ],
)  # fmt: skip
def test_field_unsupported_by_forms_is_refused_by_name(schema: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ElicitationForm.of(schema)
