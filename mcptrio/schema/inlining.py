"""Replaces references in a schema by their definitions.

Used for input schemas, because some host applications do not read ``$defs``, and send invalid arguments or refuse the
tool. The meaning of the schema does not change. Recursive definitions are not replaced. If the schema would exceed
``MAX_INLINED_ITEMS``, no definition is replaced.

Source: JSON Schema 2020-12, core, 8.2.3.1 ("$ref", next to which other keywords apply too).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["MAX_INLINED_ITEMS", "definition_name", "inline_definitions", "references_in"]

MAX_INLINED_ITEMS: Final = 5_000
"""Members and items of all schemas together, with a copy of the definition for each reference."""

_POINTER: Final = "#/$defs/"
_ANNOTATION_KEYWORDS: Final = frozenset({"title", "description", "default", "examples", "deprecated"})
"""Keywords that only annotate. Next to a reference, they override those of the definition."""


def inline_definitions(
    schemas: Sequence[dict[str, Any]], definitions: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the schemas without references, and the definitions that remain because they are recursive.

    Args:
        schemas: Schemas with references of the form ``#/$defs/NAME``.
        definitions: The schemas by name.
    """
    recursive_names = {name for name in definitions if _reaches(name, name, definitions)}
    try:
        budget = _SizeBudget()
        inlined = [_inline(schema, definitions, recursive_names, budget) for schema in schemas]
        rest = {
            name: _inline(definitions[name], definitions, recursive_names, budget)
            for name in definitions
            if name in recursive_names
        }
    except _BudgetExceeded:
        # A schema in which only some references are replaced is harder to read than either form.
        return list(schemas), dict(definitions)
    return inlined, rest


class _BudgetExceeded(Exception):
    """The schemas would exceed :data:`MAX_INLINED_ITEMS`."""


class _SizeBudget:
    """Counts members and items up to :data:`MAX_INLINED_ITEMS`."""

    def __init__(self) -> None:
        self._left = MAX_INLINED_ITEMS

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _BudgetExceeded


def _inline(schema: Any, definitions: Mapping[str, Any], recursive_names: set[str], budget: _SizeBudget) -> Any:
    if isinstance(schema, list | tuple):
        budget.take(len(schema))
        return [_inline(each, definitions, recursive_names, budget) for each in schema]
    if not isinstance(schema, dict):
        return schema
    budget.take(len(schema))
    name = _referenced_name(schema)
    if name is None or name in recursive_names or name not in definitions:
        return {key: _inline(value, definitions, recursive_names, budget) for key, value in schema.items()}
    siblings = {
        key: _inline(value, definitions, recursive_names, budget) for key, value in schema.items() if key != "$ref"
    }
    definition = _inline(definitions[name], definitions, recursive_names, budget)
    if not isinstance(definition, dict):  # true or false
        return {"allOf": [definition], **siblings} if siblings else definition
    definition.pop("title", None)  # the name of a class, which is useful in `$defs` only
    # If both have the same keyword, `allOf` applies both; merging would lose one of them.
    if (siblings.keys() - _ANNOTATION_KEYWORDS) & definition.keys():
        return {"allOf": [definition], **siblings}
    return {**definition, **siblings}


def _reaches(start: str, target: str, definitions: Mapping[str, Any]) -> bool:
    """Return whether a definition refers to another, directly or indirectly."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in references_in(definitions.get(waiting.pop())):
            if name == target:
                return True
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return False


def references_in(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions to which a schema refers, at any depth."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            name = _referenced_name(each)
            if name is not None:
                yield name
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)


def _referenced_name(schema: Mapping[str, Any]) -> str | None:
    reference = schema.get("$ref")
    # A property named `$ref` has a schema as its value, not a string.
    if isinstance(reference, str) and reference.startswith(_POINTER):
        return definition_name(reference)
    return None


def definition_name(reference: str) -> str:
    """Return the name of the definition in ``#/$defs/NAME``."""
    # RFC 6901: "~1" is replaced first, so that "~01" becomes "~1".
    return reference.removeprefix(_POINTER).replace("~1", "/").replace("~0", "~")
