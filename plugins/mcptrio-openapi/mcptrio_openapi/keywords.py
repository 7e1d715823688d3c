"""The keywords of JSON Schema that are converted, by the kinds of their values.

``Schemas`` uses them, and drops all other keywords.

Source: JSON Schema 2020-12 core, 10 and 11; validation, 6 to 9.
"""

from __future__ import annotations

from typing import Any

from .problems import DocumentError, name_kind

__all__ = [
    "ANNOTATION_KEYWORDS",
    "KEYWORDS_BY_TYPE",
    "RESPONSE_KEYWORDS",
    "SCHEMA_ARRAY_KEYWORDS",
    "SCHEMA_MAP_KEYWORDS",
    "SIMPLE_KEYWORDS",
    "SUBSCHEMA_KEYWORDS",
    "TYPES",
    "check_simple_keyword",
]

TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
ANNOTATION_KEYWORDS = frozenset({"title", "description", "deprecated", "default", "examples", "example"})
SUBSCHEMA_KEYWORDS = frozenset(
    {
        "items",
        "additionalProperties",
        "not",
        "contains",
        "propertyNames",
        "if",
        "then",
        "else",
        "unevaluatedProperties",
        "unevaluatedItems",
    }
)
SCHEMA_ARRAY_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SCHEMA_MAP_KEYWORDS = frozenset({"properties", "patternProperties", "dependentSchemas"})
RESPONSE_KEYWORDS = frozenset(
    {"properties", "items", "prefixItems", "allOf", "anyOf", "oneOf", "format", "additionalProperties"}
)
"""Keywords that the schema of a response keeps, in addition to types and annotations."""

_COUNTS = frozenset(
    {
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minContains",
        "maxContains",
    }
)
_NUMBERS = frozenset({"minimum", "maximum", "multipleOf"})
_TEXTS = frozenset({"pattern", "format", "contentEncoding", "contentMediaType"})
SIMPLE_KEYWORDS = _COUNTS | _NUMBERS | _TEXTS | {"uniqueItems"}

_OF_NUMBERS = _NUMBERS | {"exclusiveMinimum", "exclusiveMaximum"}
KEYWORDS_BY_TYPE: dict[str, frozenset[str]] = {
    "string": _TEXTS | {"minLength", "maxLength"},
    "integer": _OF_NUMBERS | {"format"},
    "number": _OF_NUMBERS | {"format"},
    "boolean": frozenset(),
    "array": frozenset(
        {
            "items",
            "prefixItems",
            "contains",
            "minItems",
            "maxItems",
            "minContains",
            "maxContains",
            "uniqueItems",
            "unevaluatedItems",
        }
    ),
    "object": SCHEMA_MAP_KEYWORDS
    | {
        "required",
        "additionalProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "unevaluatedProperties",
    },
}
"""The keywords that apply only to one type."""


def check_simple_keyword(keyword: str, value: Any, pointer: str) -> None:
    """Check the type of a keyword that contains no schemas.

    Raises:
        DocumentError: The value has the wrong type for its keyword.
    """
    if keyword in _COUNTS:
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
            raise DocumentError(pointer, f"expected a count, got {name_kind(value)}")
    elif keyword in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DocumentError(pointer, f"expected a number, got {name_kind(value)}")
        if keyword == "multipleOf" and value <= 0:
            raise DocumentError(pointer, f"expected a number > 0, got {name_kind(value)}")
    elif keyword in _TEXTS:
        if not isinstance(value, str):
            raise DocumentError(pointer, f"expected a string, got {name_kind(value)}")
    elif not isinstance(value, bool):
        raise DocumentError(pointer, f"expected true or false, got {name_kind(value)}")
