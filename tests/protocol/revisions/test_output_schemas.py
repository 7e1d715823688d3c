"""Output schemas and structured content: lowered separately, they still agree."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.protocol.revisions.output_schemas import lower_output_schema, lower_structured_content

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
TREE = {"type": "array", "items": {"$ref": "#"}}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "integer"}}},
    {"type": "array", "items": {"type": "integer"}},
    {"type": ["string", "null"]},
    {"enum": ["a", 1]},
    {"const": {"a": 1}},
    {"anyOf": [{"type": "object"}, {"$ref": "#/$defs/node"}], "$defs": {"node": NODE}},
    {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    {"allOf": [{"type": ["object", "null"]}, {"type": "object"}]},
    {"anyOf": [{"type": "object"}, {"type": "null"}]},
    {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    {"type": "array", "items": {"$ref": "#/$defs/node"}, "$defs": {"node": NODE}},
    {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}},
    {"$ref": "https://example.org/elsewhere"},
    {"$ref": "#"},
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string"},
    TREE,
    {},
    {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "string"}}, "$id": "https://e.org/s"},
    {"type": "array", "items": {"$ref": "#n"}, "$defs": {"n": {"$anchor": "n", "type": "string"}}},
]
VALUES = st.sampled_from(
    [{}, {"a": 1}, {"a": "x"}, {"next": {}}, {"next": 1}, [], [1], ["x"], [[]], [[1]], [{}], None, "a", "x", 1, True]
)


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_root_of_a_lowered_output_schema_is_an_object(schema: dict[str, Any]) -> None:
    lowered = lower_output_schema(schema)

    assert lowered is None or lowered["type"] == "object"


@pytest.mark.parametrize("schema", [schema for schema in SCHEMAS if "https://example.org" not in str(schema)], ids=str)
@settings(max_examples=30, deadline=None)
@given(value=VALUES)
def test_lowered_output_schema_accepts_valid_values(schema: dict[str, Any], value: Any) -> None:
    lowered = lower_output_schema(schema)
    if lowered is not None and jsonschema_rs.is_valid(schema, value):
        assert jsonschema_rs.is_valid(lowered, lower_structured_content(value))


@pytest.mark.parametrize("value", [[], [1], "x", None, {"a": 1}], ids=repr)
def test_wrapped_output_schema_still_refuses_invalid_values(value: Any) -> None:
    for schema in ({"type": "integer"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}):
        lowered = lower_output_schema(schema)

        assert lowered is not None
        assert not jsonschema_rs.is_valid(lowered, lower_structured_content(value))


def test_object_schema_is_unchanged() -> None:
    assert lower_output_schema(SCHEMAS[0]) is SCHEMAS[0]


@pytest.mark.parametrize("schema", [{}, {"type": ["object", "null"]}, {"$ref": "#"}, {"$ref": "#/$defs/gone"}], ids=str)
def test_output_schema_of_objects_and_other_values_is_omitted(schema: dict[str, Any]) -> None:
    assert lower_output_schema(schema) is None


def test_references_are_moved_with_a_wrapped_schema() -> None:
    lowered = lower_output_schema({**TREE, "default": {"$ref": "#"}})

    assert lowered is not None
    inner = lowered["properties"]["result"]
    assert inner["items"] == {"$ref": "#/properties/result"}
    assert inner["default"] == {"$ref": "#"}


def test_dialect_stays_at_the_root_of_a_wrapped_schema() -> None:
    lowered = lower_output_schema({"$schema": "d", "type": "string"})

    assert lowered == {
        "$schema": "d",
        "type": "object",
        "properties": {"result": {"type": "string"}},
        "required": ["result"],
    }


def test_property_named_like_a_keyword_is_kept() -> None:
    items = {"type": "object", "properties": {"default": {"$ref": "#/items"}, "$id": {"type": "string"}}}

    lowered = lower_output_schema({"type": "array", "items": items})

    assert lowered is not None
    moved = lowered["properties"]["result"]["items"]["properties"]
    assert moved == {"default": {"$ref": "#/properties/result/items"}, "$id": {"type": "string"}}


def test_recursive_union_is_lowered_in_bounded_time() -> None:
    """Following each branch of this union would take 3**90 steps."""
    branches = {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 3} for n in range(90)}
    schema = {"$ref": "#/$defs/0", "$defs": {**branches, "90": {"$ref": "#/$defs/0"}}}

    assert lower_output_schema(schema) is None


def test_deeply_nested_output_schema_is_omitted() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}

    assert lower_output_schema(schema) is None
