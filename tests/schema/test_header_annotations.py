"""The rules of ``x-mcp-header``."""

from __future__ import annotations

from typing import Any

import pytest

from mcptrio.schema.validation import check_header_annotations

REGION = {"type": "string", "x-mcp-header": "Region"}


def test_header_annotations_are_found_with_their_paths() -> None:
    schema = {
        "type": "object",
        "properties": {
            "region": REGION,
            "x-mcp-header": {"type": "string"},
            "a": {"type": "object", "properties": {"b": {"type": "integer", "x-mcp-header": "X_b!"}}},
            "c": {"type": "boolean", "x-mcp-header": "Method"},
        },
    }

    assert check_header_annotations(schema) == {"region": ("region",), "method": ("c",), "x_b!": ("a", "b")}
    assert check_header_annotations({"type": "object"}) == {}


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples"])
def test_annotations_inside_data_are_ignored(keyword: str) -> None:
    data: Any = {"properties": {"a": {"x-mcp-header": ""}}, "x-mcp-header": ""}

    assert check_header_annotations({"properties": {"a": {"type": "object", keyword: [data]}}, keyword: data}) == {}


@pytest.mark.parametrize("name", ["a b", "a:b", "a\r\nX: y", "é", "a\x00", 'a"', "a/b", "(a)", "a\n"])
def test_header_name_that_is_not_a_token_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"at `properties\.a`: not a token"):
        check_header_annotations({"properties": {"a": {"type": "string", "x-mcp-header": name}}})


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"type": "string", "x-mcp-header": ""}, "empty"),
        ({"type": "string", "x-mcp-header": None}, "expected a string, got null"),
        ({"type": "number", "x-mcp-header": "N"}, 'got "number"'),
        ({"type": "object", "x-mcp-header": "N"}, 'got "object"'),
        ({"type": ["string", "null"], "x-mcp-header": "N"}, "got an array"),
        ({"x-mcp-header": "N"}, "got none"),
    ],
)
def test_invalid_header_annotation_is_refused(field: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_header_annotations({"properties": {"a": field}})


def test_header_name_repeated_in_another_case_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'region' at `properties\.b`: already used at `a`"):
        check_header_annotations({"properties": {"a": REGION, "b": {**REGION, "x-mcp-header": "REGION"}}})


@pytest.mark.parametrize(
    "schema",
    [
        REGION,
        {"items": REGION},
        {"prefixItems": [REGION]},
        {"contains": REGION},
        {"additionalProperties": REGION},
        {"patternProperties": {"a": REGION}},
        {"dependentSchemas": {"a": REGION}},
        {"anyOf": [{"properties": {"a": REGION}}]},
        {"oneOf": [REGION]},
        {"allOf": [{"properties": {"a": REGION}}]},
        {"not": REGION},
        {"if": {"properties": {"a": REGION}}},
        {"then": REGION},
        {"else": REGION},
        {"$defs": {"a": REGION}},
        {"properties": {"a": {"type": "array", "items": REGION}}},
        {"properties": {"a": {"anyOf": [{"properties": {"b": REGION}}]}}},
    ],
)
def test_annotation_outside_properties_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="reached by properties alone"):
        check_header_annotations(schema)
