"""Repairs arguments that a model has written in a slightly wrong form, if only one repair matches the schema.

Tools use it after arguments were refused, so it costs correct arguments nothing and never changes them.

| written | schema | repaired |
|---|---|---|
| ``"3"``, ``"2.5"`` | an integer, a number | the number |
| ``"true"`` | a boolean | the boolean |
| ``3`` | a string without ``format`` | ``"3"`` |
| ``"[1, 2]"``, ``"{…}"`` | an array, an object | the JSON value |
| a single value | an array of such values | an array with this value |
| ``null`` | an optional value without ``null`` | omitted |

A string whose schema allows strings is never changed, and neither is a value whose schema allows several of these
types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

__all__ = ["repair_arguments"]

_INTEGER: Final = re.compile(r"-?(0|[1-9]\d{0,14})")
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,17})?([eE][+-]?\d{1,3})?")
_INTEGER_BOUND: Final = 10**15
"""Larger integers are not repaired, because they may have lost digits in a program that reads numbers as floats."""
_MAX_DEPTH: Final = 8
"""Levels of values that are repaired; deeper ones are not changed."""
_MAX_PARTS: Final = 32
"""Alternatives in the schema of one value."""
_UNCHANGED: Final[Any] = object()
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}

Schema = Mapping[str, Any]


def repair_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Repair the arguments of a tool that were refused.

    Args:
        schema: JSON Schema of the arguments, an object.

    Returns:
        The arguments with the repairs, and the paths of all repairs, such as ``edits[0].limit``. If nothing could be
        repaired, there are no paths.
    """
    repairs = _Repairs(schema)
    repaired = repairs.object(arguments, schema, "", 0)
    return repaired, repairs.paths


class _Repairs:
    def __init__(self, root: Schema) -> None:
        self._definitions = root.get("$defs")
        self.paths: list[str] = []

    def object(self, value: Mapping[str, Any], schema: Schema, path: str, depth: int) -> dict[str, Any]:
        if depth >= _MAX_DEPTH:
            return dict(value)
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        required = schema.get("required")
        repaired_members: dict[str, Any] = {}
        for name, each in value.items():
            part = properties.get(name, others) if isinstance(properties, dict) else others
            member_path = f"{path}.{name}" if path else name
            if not isinstance(part, dict):
                repaired_members[name] = each
            elif each is None and not (isinstance(required, list) and name in required):
                types = self._types(part)
                if types is None or "null" in types:
                    repaired_members[name] = each
                else:
                    self.paths.append(member_path)
            else:
                repaired_members[name] = self._value(each, part, member_path, depth + 1)
        return repaired_members

    def _value(self, value: Any, schema: Schema, path: str, depth: int) -> Any:
        types = self._types(schema)
        if types is None or depth >= _MAX_DEPTH:
            return value
        non_null_types = types - {"null"}
        if not _has_type(value, types):
            repaired = self._repair(value, non_null_types, schema)
            if repaired is _UNCHANGED:
                return value
            self.paths.append(path)
            value = repaired
        if isinstance(value, dict) and non_null_types == {"object"}:
            return self.object(value, self._part_of_type(schema, "object"), path, depth)
        if isinstance(value, list) and non_null_types == {"array"}:
            items = self._part_of_type(schema, "array").get("items")
            if isinstance(items, dict):
                return [self._value(each, items, f"{path}[{at}]", depth + 1) for at, each in enumerate(value)]
        return value

    def _repair(self, value: Any, types: set[str], schema: Schema) -> Any:
        if isinstance(value, str) and "string" not in types:
            text = value.strip()
            if types == {"integer"} and _INTEGER.fullmatch(text):
                return int(text)
            if types and types <= {"integer", "number"} and "number" in types and _NUMBER.fullmatch(text):
                return int(text) if _INTEGER.fullmatch(text) else float(text)
            if types == {"boolean"} and text in ("true", "false"):
                return text == "true"
            if types and types <= {"array", "object"}:
                parsed = _json_of(text)
                if parsed is not _UNCHANGED and _has_type(parsed, types):
                    return parsed
        # Only integers become strings: a boolean or a float has several text forms. A string with a format, such as
        # a date, cannot be an integer.
        if types == {"string"} and type(value) is int and abs(value) < _INTEGER_BOUND:
            part = self._part_of_type(schema, "string")
            return _UNCHANGED if "format" in part or "contentEncoding" in part else str(value)
        if types == {"array"} and value is not None and not isinstance(value, list):
            items = self._part_of_type(schema, "array").get("items")
            item_types = self._types(items) if isinstance(items, dict) else None
            if item_types is not None and _has_type(value, item_types):
                return [value]
        return _UNCHANGED

    def _part_of_type(self, schema: Schema, kind: str) -> Schema:
        """Return the alternative of a schema that describes values of this type."""
        for part in self._parts(schema, 0) or ():
            if part.get("type") == kind or (isinstance(part.get("type"), list) and kind in part["type"]):
                return part
        return schema

    def _types(self, schema: Schema) -> set[str] | None:
        """Return the names of all types that a schema allows; ``None`` if it does not limit them."""
        parts = self._parts(schema, 0)
        if parts is None:
            return None
        types: set[str] = set()
        for part in parts:
            kind = part.get("type")
            if isinstance(kind, str):
                types.add(kind)
            elif isinstance(kind, list):
                types.update(each for each in kind if isinstance(each, str))
            else:
                return None
        return types

    def _parts(self, schema: Schema, depth: int) -> list[Schema] | None:
        """Return the alternatives of a schema, with references resolved.

        Returns:
            ``None`` if there are too many, or if a part of the schema is not understood.
        """
        if depth >= _MAX_DEPTH:
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            name = reference.removeprefix("#/$defs/")
            definition = self._definitions.get(name) if isinstance(self._definitions, dict) else None
            return self._parts(definition, depth + 1) if isinstance(definition, dict) else None
        choices = schema.get("anyOf", schema.get("oneOf"))
        if choices is None:
            return [schema]
        parts: list[Schema] = []
        for each in choices if isinstance(choices, list) else ():
            inner = self._parts(each, depth + 1) if isinstance(each, dict) else None
            if inner is None or len(parts) + len(inner) > _MAX_PARTS:
                return None
            parts += inner
        return parts


def _has_type(value: Any, types: set[str]) -> bool:
    """Return whether a value has one of the types. Other keywords are not checked."""
    kind = "null" if value is None else _TYPES.get(type(value), "")
    return kind in types or (kind == "integer" and "number" in types)


def _json_of(text: str) -> Any:
    if not text.startswith(("[", "{")):
        return _UNCHANGED
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _UNCHANGED
