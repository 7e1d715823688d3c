"""The keywords of JSON Schema that are kept, by the kinds of their values.

The conversion of schemas uses it, and drops all other keywords.

Source: JSON Schema 2020-12 core, 10 and 11; validation, 6 to 9.
"""

from __future__ import annotations

from typing import Any

from .problems import DocumentError, name_kind

__all__ = ["ANNOTATIONS", "ARRAYS", "MAPS", "OF_TYPE", "PLAIN", "SHAPE", "SUBSCHEMAS", "TYPES", "check_plain"]

TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
ANNOTATIONS = frozenset({"title", "description", "deprecated", "default", "examples", "example"})
SUBSCHEMAS = frozenset(
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
ARRAYS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
SHAPE = frozenset({"properties", "items", "prefixItems", "allOf", "anyOf", "oneOf", "format", "additionalProperties"})
"""Keywords that a response's schema keeps, in addition to types and annotations."""

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
PLAIN = _COUNTS | _NUMBERS | _TEXTS | {"uniqueItems"}

_OF_NUMBERS = _NUMBERS | {"exclusiveMinimum", "exclusiveMaximum"}
OF_TYPE: dict[str, frozenset[str]] = {
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
    "object": MAPS
    | {
        "required",
        "additionalProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "unevaluatedProperties",
    },
}
"""The keywords that say something about one type only."""


def check_plain(keyword: str, value: Any, pointer: str) -> None:
    """
    Raises:
        Misfit: the value of a keyword without subschemas is of the wrong kind.
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
            raise DocumentError(pointer, f"expected a text, got {name_kind(value)}")
    elif not isinstance(value, bool):
        raise DocumentError(pointer, f"expected true or false, got {name_kind(value)}")
