"""Replaces references in a schema by their definitions.

Used for input schemas: some host applications do not read ``$defs``, and send invalid arguments or refuse the tool. The
schema keeps its meaning. Recursive definitions stay, and so do all if the schema would exceed ``MAX_INLINED_ITEMS``.

Source: JSON Schema 2020-12, core, 8.2.3.1 ("$ref", next to which other keywords apply too).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["MAX_INLINED_ITEMS", "definition_name", "inlined", "references_in"]

MAX_INLINED_ITEMS: Final = 5_000
"""Members and items of all schemas together. A definition is copied to each place that uses it."""

_POINTER: Final = "#/$defs/"
_REMARKS: Final = frozenset({"title", "description", "default", "examples", "deprecated"})
"""Keywords that only annotate, so those next to the reference override those of the definition."""


def inlined(
    schemas: Sequence[dict[str, Any]], definitions: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the schemas without references, and the definitions that remain because they are recursive.

    Args:
        schemas: Schemas with references of the form ``#/$defs/NAME``.
        definitions: The schemas by name.
    """
    kept = {name for name in definitions if _reaches(name, name, definitions)}
    try:
        room = _SizeBudget()
        found = [_filled(schema, definitions, kept, room) for schema in schemas]
        rest = {name: _filled(definitions[name], definitions, kept, room) for name in definitions if name in kept}
    except _Full:
        # All references stay: a schema that is inlined in part is harder to read than either form.
        return list(schemas), dict(definitions)
    return found, rest


class _Full(Exception):
    """The schemas would exceed :data:`MAX_INLINED_ITEMS`."""


class _SizeBudget:
    def __init__(self) -> None:
        self._left = MAX_INLINED_ITEMS

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _Full


def _filled(schema: Any, definitions: Mapping[str, Any], kept: set[str], room: _SizeBudget) -> Any:
    if isinstance(schema, list | tuple):
        room.take(len(schema))
        return [_filled(each, definitions, kept, room) for each in schema]
    if not isinstance(schema, dict):
        return schema
    room.take(len(schema))
    name = _referred(schema)
    if name is None or name in kept or name not in definitions:
        return {key: _filled(value, definitions, kept, room) for key, value in schema.items()}
    beside = {key: _filled(value, definitions, kept, room) for key, value in schema.items() if key != "$ref"}
    there = _filled(definitions[name], definitions, kept, room)
    if not isinstance(there, dict):  # true or false
        return {"allOf": [there], **beside} if beside else there
    there.pop("title", None)  # the name of a class, which said what the reference meant
    # Merging would replace a bound of the definition; `allOf` keeps both.
    if (beside.keys() - _REMARKS) & there.keys():
        return {"allOf": [there], **beside}
    return {**there, **beside}


def _reaches(start: str, wanted: str, definitions: Mapping[str, Any]) -> bool:
    """Return whether a definition refers to another, directly or indirectly."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in references_in(definitions.get(waiting.pop())):
            if name == wanted:
                return True
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return False


def references_in(schema: Any) -> Iterator[str]:
    """Yield the definitions that a schema refers to, at any depth."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            name = _referred(each)
            if name is not None:
                yield name
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)


def _referred(schema: Mapping[str, Any]) -> str | None:
    reference = schema.get("$ref")
    # A property named `$ref` has a schema as its value, not a string.
    if isinstance(reference, str) and reference.startswith(_POINTER):
        return definition_name(reference)
    return None


def definition_name(reference: str) -> str:
    """Return the name of the definition in ``#/$defs/NAME``."""
    # RFC 6901: "~1" first, so that "~01" becomes "~1".
    return reference.removeprefix(_POINTER).replace("~1", "/").replace("~0", "~")
