"""Schemas of a document are converted to JSON Schema 2020-12."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from mcptrio_openapi.documents import Document
from mcptrio_openapi.problems import DocumentError, DocumentProblem
from mcptrio_openapi.schemas import Schemas


def convert(schema: Any, *, minor: int = 0, sending: bool = True, **components: Any) -> dict[str, Any]:
    document = Document({"openapi": f"3.{minor}.0", "components": {"schemas": components}}, minor)
    problems: list[DocumentProblem] = []
    schemas = Schemas(document, sending=sending, max_description_chars=100, problems=problems)
    converted = schemas.finish(schemas.convert(schema, "#"))
    jsonschema_rs.Draft202012Validator(converted)
    return converted


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (
            {"type": "string", "nullable": True, "enum": ["a"], "description": "D"},
            {"description": "D", "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        ({"nullable": True}, {}),
        ({"nullable": True, "enum": [1]}, {"enum": [1, None]}),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "minimum": 2}),
        ({"type": "integer", "maximum": 1, "exclusiveMaximum": False}, {"type": "integer", "maximum": 1}),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 1}),
        ({"type": "number", "exclusiveMaximum": True}, {"type": "number"}),
        ({"type": "string", "format": "byte"}, {"type": "string", "contentEncoding": "base64"}),
        ({"type": "string", "example": "x", "x-extra": 1, "xml": {}}, {"type": "string", "examples": ["x"]}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ({"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
        ({"type": "object", "additionalProperties": True}, {"type": "object"}),
        ({"type": "string", "pattern": "(?=a)"}, {"type": "string"}),
        ({"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "integer"}}),
    ],
)
def test_schema_of_openapi_3_0_is_converted(schema: Any, expected: Any) -> None:
    assert convert(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": ["string", "null"], "maxLength": 3},
            {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        ),
        ({"type": ["string"]}, {"type": "string"}),
        (
            {"type": ["integer", "string"], "enum": [1, "a", None], "minimum": 0},
            {"anyOf": [{"type": "integer", "minimum": 0, "enum": [1]}, {"type": "string", "enum": ["a"]}]},
        ),
        ({"type": "integer", "exclusiveMinimum": 0, "minimum": -5}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "exclusiveMaximum": 2.5}, {"type": "integer", "maximum": 2}),
        ({"const": 3}, {"enum": [3]}),
        (True, {}),
        (False, {"not": {}}),
        ({"type": "object", "properties": {"a": True}}, {"type": "object", "properties": {"a": {}}}),
    ],
)
def test_schema_of_openapi_3_1_is_kept(schema: Any, expected: Any) -> None:
    assert convert(schema, minor=1) == expected


def test_read_only_properties_are_not_sent_and_write_only_not_returned() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name", "word"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string"},
            "word": {"$ref": "#/components/schemas/Word"},
        },
    }

    sent = convert(schema, Word={"type": "string", "writeOnly": True})
    come = convert(schema, sending=False, Word={"type": "string", "writeOnly": True})

    assert sorted(sent["properties"]) == ["name", "word"]
    assert sent["required"] == ["name", "word"]
    assert sorted(come["properties"]) == ["id", "name"]
    assert "required" not in come


def test_response_schema_drops_constraints() -> None:
    schema = {"type": "string", "enum": ["a"], "minLength": 3, "description": "D", "default": "a"}

    assert convert(schema, sending=False) == {"type": "string", "description": "D"}


REF = {"$ref": "#/components/schemas/Node"}


def test_reference_used_once_is_inlined() -> None:
    assert convert({"type": "array", "items": REF}, Node={"type": "string"}) == {
        "type": "array",
        "items": {"type": "string"},
    }


def test_repeated_or_recursive_reference_is_a_definition() -> None:
    twice = convert({"type": "object", "properties": {"a": REF, "b": REF}}, Node={"type": "string"})
    circle = convert({"type": "object", "properties": {"a": REF}}, Node={"type": "array", "items": REF})

    assert twice["$defs"] == {"Node": {"type": "string"}}
    assert circle["properties"] == {"a": {"$ref": "#/$defs/Node"}}
    assert circle["$defs"] == {"Node": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}
    jsonschema_rs.Draft202012Validator(circle).validate({"a": [[], [[]]]})


def test_properties_named_like_keywords_are_kept() -> None:
    names = ["title", "description", "default", "enum", "required", "examples", "$ref", "properties", "type"]
    converted = convert({"type": "object", "properties": dict.fromkeys(names, REF)}, minor=1, Node={"type": "string"})

    assert converted["properties"] == {name: {"$ref": "#/$defs/Node"} for name in names}
    assert converted["$defs"] == {"Node": {"type": "string"}}


def test_property_named_ref_is_not_a_reference() -> None:
    schema = {"type": "object", "properties": {"$ref": {"type": "string"}, "a": {"type": "object", "properties": {}}}}

    assert convert(schema) == schema


def test_names_of_definitions_are_valid_and_differ() -> None:
    other = {"a/b": {"type": "object", "properties": {"x": {"$ref": "#/components/schemas/a~1b"}}}}
    other["a b"] = {"type": "object", "properties": {"y": {"$ref": "#/components/schemas/a%20b"}}}
    schema = {"anyOf": [{"$ref": "#/components/schemas/a~1b"}, {"$ref": "#/components/schemas/a%20b"}]}

    assert sorted(convert(schema, **other)["$defs"]) == ["a_b", "a_b_2"]


def test_siblings_of_a_reference_are_kept_in_3_1_only() -> None:
    schema = {"$ref": "#/components/schemas/Node", "description": "Here."}

    assert convert(schema, minor=1, Node={"type": "string", "description": "There."}) == {
        "type": "string",
        "description": "Here.",
    }
    assert convert(schema, Node={"type": "string"}) == {"type": "string"}
    narrowed = convert({**schema, "minLength": 2}, minor=1, Node={"type": "string"})
    assert narrowed["allOf"] == [{"type": "string"}, {"description": "Here.", "minLength": 2}]


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (3, "#"),
        ({"type": "text"}, "#/type"),
        ({"type": {"a": 1}}, "#/type"),
        ({"type": "object", "properties": []}, "#/properties"),
        ({"type": "object", "properties": {"a/b": 1}}, "#/properties/a~1b"),
        ({"type": "object", "required": True}, "#/required"),
        ({"type": "object", "required": [1]}, "#/required"),
        ({"type": "string", "minLength": "3"}, "#/minLength"),
        ({"type": "string", "minLength": -1}, "#/minLength"),
        ({"type": "string", "pattern": 1}, "#/pattern"),
        ({"type": "number", "exclusiveMinimum": "1"}, "#/exclusiveMinimum"),
        ({"type": "number", "multipleOf": 0}, "#/multipleOf"),
        ({"allOf": {}}, "#/allOf"),
        ({"anyOf": [{}, 1]}, "#/anyOf/1"),
        ({"enum": "a"}, "#/enum"),
        ({"$ref": 1}, "#/$ref"),
        ({"$ref": "#/components/schemas/No"}, "#/$ref"),
        ({"$ref": "https://evil.example/x.json"}, "#/$ref"),
        ({"$ref": "other.yaml#/a"}, "#/$ref"),
        ({"$ref": "#/components/schemas/Loop"}, "#/components/schemas/Loop/$ref"),
    ],
)
def test_schema_errors_name_their_place(schema: Any, pointer: str) -> None:
    with pytest.raises(DocumentError) as caught:
        convert(schema, Loop={"$ref": "#/components/schemas/Loop"})

    assert caught.value.pointer == pointer


def test_deeply_nested_schema_is_refused() -> None:
    schema: Any = {}
    for _ in range(500):
        schema = {"type": "array", "items": schema}

    with pytest.raises(DocumentError, match="levels"):
        convert(schema)


def test_schema_with_too_many_subschemas_is_refused() -> None:
    schema = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(2000)}}

    with pytest.raises(DocumentError, match="subschemas"):
        convert(schema)


def test_exponential_references_are_not_inlined() -> None:
    """Each level refers twice to the next: inlined, that would be a million schemas."""
    tower: dict[str, Any] = {
        f"L{level}": {
            "type": "object",
            "properties": {key: {"$ref": f"#/components/schemas/L{level + 1}"} for key in "ab"},
        }
        for level in range(20)
    }
    converted = convert({"$ref": "#/components/schemas/L0"}, **tower, L20={"type": "string"})

    assert len(json.dumps(converted)) < 5000


def test_long_chain_of_references_is_not_inlined() -> None:
    chain: dict[str, Any] = {
        f"L{level}": {"type": "array", "items": {"$ref": f"#/components/schemas/L{level + 1}"}} for level in range(200)
    }
    converted = convert({"$ref": "#/components/schemas/L0"}, **chain, L200={"type": "string"})

    assert "$defs" in converted
