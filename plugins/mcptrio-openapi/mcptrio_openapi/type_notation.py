"""Writes JSON Schemas compactly, in a notation of types: ``{name: string, tags?: [string], state: "open" | "closed"}``.

``find_operation`` shows arguments in this notation, which takes about a tenth of the tokens of the schema. A reference
is replaced by its target. A schema that contains itself, and levels below the limit, are written as ``{…}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from .problems import shorten

__all__ = ["arguments_text", "shape_of"]

_MAX_VALUES = 12
"""Maximum number of values of an enum that are shown."""
_MAX_FIELDS = 60
_MAX_DESCRIPTION = 120
_PREFIX = "#/$defs/"
_BOUNDS = (("minimum", ">="), ("maximum", "<="), ("exclusiveMinimum", ">"), ("exclusiveMaximum", "<"))

Schema = Mapping[str, Any]


def arguments_text(schema: Schema, *, levels: int, descriptions: bool) -> list[str]:
    """Return one line for each argument, required ones first.

    Args:
        schema: The schema of all arguments, an object.
        levels: Number of levels of nested objects that are shown.
        descriptions: True to add the description of each argument.
    """
    required = frozenset(schema.get("required", ()))
    properties: Schema = schema.get("properties", {})
    definitions: Schema = schema.get("$defs", {})
    lines: list[str] = []
    for name in sorted(properties, key=lambda name: name not in required):
        value: Schema = properties[name]
        line = f"{name}{'' if name in required else '?'}: {shape_of(value, definitions, levels)}"
        if "default" in value:
            line += f" = {shorten(orjson.dumps(value['default']).decode(), 60)}"
        if descriptions and value.get("description"):
            line += f"  {shorten(' '.join(str(value['description']).split()), _MAX_DESCRIPTION)}"
        lines.append(line)
    return lines


def shape_of(schema: Any, definitions: Schema, levels: int, within: frozenset[str] = frozenset()) -> str:
    """Return the type that a schema describes.

    Args:
        definitions: The targets of references.
        levels: Number of levels of nested objects that are shown.
        within: The definitions that contain the schema.
    """
    if not isinstance(schema, Mapping):
        return "any"
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix(_PREFIX)
        if name in within:
            return "{…}"
        return shape_of(definitions.get(name), definitions, levels, within | {name})
    if "enum" in schema:
        values = [shorten(orjson.dumps(value).decode(), 60) for value in schema["enum"][:_MAX_VALUES]]
        return " | ".join([*values, *(["…"] if len(schema["enum"]) > _MAX_VALUES else [])])
    for keyword, sign in (("anyOf", " | "), ("allOf", " & ")):
        if keyword in schema:
            parts = dict.fromkeys(shape_of(each, definitions, levels, within) for each in schema[keyword])
            return sign.join(part for part in parts if part != "any") or "any"
    if "properties" in schema or schema.get("type") == "object":
        return _object(schema, definitions, levels, within)
    if "items" in schema or schema.get("type") == "array":
        return f"[{shape_of(schema.get('items'), definitions, levels, within)}]"
    kind = str(schema.get("type", "any"))
    if schema.get("contentEncoding") == "base64":
        return f"{kind} (Base64)"
    notes = [str(schema["format"])] if "format" in schema else []
    if "minimum" in schema and "maximum" in schema:
        notes.append(f"{schema['minimum']} to {schema['maximum']}")
    else:
        notes += [f"{sign} {schema[keyword]}" for keyword, sign in _BOUNDS if keyword in schema]
    return f"{kind} ({', '.join(notes)})" if notes else kind


def _object(schema: Schema, definitions: Schema, levels: int, within: frozenset[str]) -> str:
    properties: Schema = schema.get("properties", {})
    if not properties:
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and values and levels > 0:
            return f"{{*: {shape_of(values, definitions, levels - 1, within)}}}"
        return "object"
    if levels <= 0:
        return "{…}"
    required = frozenset(schema.get("required", ()))
    fields = [
        f"{name}{'' if name in required else '?'}: {shape_of(value, definitions, levels - 1, within)}"
        for name, value in list(properties.items())[:_MAX_FIELDS]
    ]
    return f"{{{', '.join([*fields, *(['…'] if len(properties) > _MAX_FIELDS else [])])}}}"
