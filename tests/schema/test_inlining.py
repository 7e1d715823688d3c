"""Definitions in input schemas: inlined, unless they are recursive or the result is too large."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from mcptrio import InvalidParams
from mcptrio.schema.inlining import inline_definitions
from mcptrio.schema.signatures import Arguments

__all__: list[str] = []


class Point(msgspec.Struct):
    """A place."""

    x: int
    y: int = 0


class Line(msgspec.Struct):
    """From one place to another."""

    start: Point
    end: Annotated[Point, msgspec.Meta(description="Where it ends.")]


class Tree(msgspec.Struct):
    """A tree."""

    at: Point
    branches: "list[Tree]" = []  # noqa: UP037 - msgspec looks it up later


POINT = {
    "description": "A place.",
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}


def test_non_recursive_definitions_are_inlined() -> None:
    def draw(lines: list[Line], origin: Point | None = None) -> None: ...

    schema = Arguments.of(draw).schema

    assert "$defs" not in schema
    assert "$ref" not in str(schema)
    line = schema["properties"]["lines"]["items"]
    assert line["properties"]["start"] == POINT
    assert line["properties"]["end"] == {**POINT, "description": "Where it ends."}
    assert POINT in schema["properties"]["origin"]["anyOf"]


def test_recursive_type_stays_a_definition() -> None:
    def grow(tree: Tree) -> None: ...

    arguments = Arguments.of(grow)

    assert arguments.schema["properties"]["tree"]["$ref"] == "#/$defs/Tree"
    assert set(arguments.schema["$defs"]) == {"Tree"}
    assert arguments.schema["$defs"]["Tree"]["properties"]["at"] == POINT
    given: dict[str, Any] = {"tree": {"at": {"x": 1}, "branches": [{"at": {"x": 2}}]}}
    assert arguments.convert(given)["tree"].branches[0].at.x == 2
    with pytest.raises(InvalidParams, match=r"tree\.branches\[0\]\.at"):
        arguments.convert({"tree": {"at": {"x": 1}, "branches": [{"at": 5}]}})


def test_keywords_next_to_a_reference_are_kept() -> None:
    definitions = {"Text": {"type": "string", "minLength": 2, "title": "Text"}}

    [remark, bound, other], rest = inline_definitions(
        [
            {"$ref": "#/$defs/Text", "description": "Mine."},
            {"$ref": "#/$defs/Text", "minLength": 3},
            {"properties": {"$ref": {"$ref": "#/$defs/Text"}}},
        ],
        definitions,
    )

    assert remark == {"type": "string", "minLength": 2, "description": "Mine."}
    assert bound == {"allOf": [{"type": "string", "minLength": 2}], "minLength": 3}
    assert other == {"properties": {"$ref": {"type": "string", "minLength": 2}}}
    assert rest == {}


def test_schema_that_would_grow_too_large_keeps_its_definitions() -> None:
    """Each definition contains the previous one twice: 40 of them would become a billion schemas."""
    definitions: dict[str, Any] = {"D0": {"type": "string"}}
    for number in range(1, 40):
        before = {"$ref": f"#/$defs/D{number - 1}"}
        definitions[f"D{number}"] = {"type": "object", "properties": {"a": before, "b": before}}
    schemas = [{"$ref": "#/$defs/D39"}]

    assert inline_definitions(schemas, definitions) == (schemas, definitions)
