"""Output schemas and structured content for revisions that support only objects.

Used by the revisions before 2026-07-28. In them, structured content is an object, and the root of an output schema has
``type: object``. Schema and content are converted independently, and must agree for every value. A schema that admits
only objects is therefore kept. A schema that admits no objects is wrapped in ``{"result": …}``, and so are its values.
A schema that admits both is omitted, because only some of its values are wrapped.

Source: MCP 2025-11-25, server/tools, "Output Schema"; SEP-2106; JSON Schema 2020-12, Core 8.2 (references).
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["lower_output_schema", "lower_structured_content"]

_WRAPPER_MEMBER: Final = "result"

_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})

_MAX_DEPTH: Final = 100
"""Levels of a schema that are read; a deeper schema is omitted. A mounted server may send any schema."""

_DATA: Final = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are data, not schemas."""

_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose values map names to schemas; the names are not keywords."""


def lower_output_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema with an object at its root; ``None`` if there is no such schema."""
    types = _types(schema, schema, {}, _MAX_DEPTH)
    if types == {"object"}:
        # The schema may admit only objects without `type: object`, for example through `$ref`.
        return schema if schema.get("type") == "object" else {**schema, "type": "object"}
    if "object" in types:
        return None
    # `$schema` is allowed only at the root of a document.
    dialect = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    inner: Any = {name: member for name, member in schema.items() if name != "$schema"}
    try:
        inner = _rebase(inner, _MAX_DEPTH)
    except _TooDeep:
        return None
    return {**dialect, "type": "object", "properties": {_WRAPPER_MEMBER: inner}, "required": [_WRAPPER_MEMBER]}


def lower_structured_content(value: Any) -> Any:
    """Return a value that is an object unchanged, and any other value wrapped in an object."""
    return value if isinstance(value, dict) else {_WRAPPER_MEMBER: value}


class _TooDeep(Exception):
    """The schema has more than ``_MAX_DEPTH`` levels."""


def _types(schema: Any, root: dict[str, Any], known: dict[str, frozenset[str]], depth: int) -> frozenset[str]:
    """Return the JSON types of the values that a schema may admit: perhaps too many, never too few.

    Args:
        known: The types of the references read so far, so that each is followed once.
    """
    if schema is False:
        return frozenset()
    # If the schema is too deep, all types are assumed, so that it is omitted.
    if not isinstance(schema, dict) or depth == 0:
        return _TYPES
    types = _TYPES
    type_keyword = schema.get("type")
    if isinstance(type_keyword, str):
        types &= {type_keyword}
    elif isinstance(type_keyword, list):
        types &= frozenset(name for name in type_keyword if isinstance(name, str))
    if "const" in schema:
        types &= {_type_of(schema["const"])}
    if isinstance(schema.get("enum"), list):
        types &= frozenset(_type_of(value) for value in schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list):
            types &= frozenset().union(*(_types(branch, root, known, depth - 1) for branch in branches))
    branches = schema.get("allOf")
    if isinstance(branches, list):
        for branch in branches:
            types &= _types(branch, root, known, depth - 1)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference not in known:
            # Set first, so that a circular reference ends here. It does not restrict the types.
            known[reference] = _TYPES
            known[reference] = _types(_resolve(reference, root), root, known, depth - 1)
        types &= known[reference]
    return types


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        # Integers too: only objects must be distinguished from other types.
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"


def _resolve(reference: str, root: dict[str, Any]) -> Any:
    """Return the target of a JSON pointer within the document; for any other reference, ``True``, which admits all
    values."""
    if reference != "#" and not reference.startswith("#/"):
        return True
    place: Any = root
    for step in reference[2:].split("/") if len(reference) > 1 else ():
        # RFC 6901: "~1" is replaced before "~0", so that "~01" becomes "~1".
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(place, dict) or name not in place:
            return True
        place = place[name]
    return place


def _rebase(schema: Any, depth: int) -> Any:
    """Return a schema whose JSON pointers are adapted to its new place in the wrapper."""
    if depth == 0:
        raise _TooDeep
    if isinstance(schema, list):
        return [_rebase(item, depth - 1) for item in schema]
    # A schema with its own $id is a separate document, so its pointers stay valid.
    if not isinstance(schema, dict) or isinstance(schema.get("$id"), str):
        return schema
    moved: dict[str, Any] = {}
    for name, member in schema.items():
        if name in ("$ref", "$dynamicRef") and isinstance(member, str):
            moved[name] = _rebase_reference(member)
        elif name in _NAMED and isinstance(member, dict):
            moved[name] = {key: _rebase(value, depth - 1) for key, value in member.items()}
        else:
            moved[name] = member if name in _DATA else _rebase(member, depth - 1)
    return moved


def _rebase_reference(reference: str) -> str:
    if reference == "#" or reference.startswith("#/"):
        return f"#/properties/{_WRAPPER_MEMBER}{reference[1:]}"
    return reference  # an anchor or another document, found by name
