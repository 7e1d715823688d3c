"""Checks the keywords that msgspec puts into a schema but does not enforce: unique items, and decimal numbers as text.

msgspec converts an array with duplicates to a set, and a JSON number or "NaN" to a ``Decimal``. Arguments, results and
elicitation answers are checked here after msgspec has accepted them, so that schema and conversion agree.

Source: JSON Schema 2020-12, Validation, "uniqueItems"; Core, 4.2.2 "Instance Equality".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcptrio.errors import InvalidParams
from mcptrio.schema.validation_messages import place_of, show_value

__all__ = ["DECIMAL", "ExactValues"]

DECIMAL: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
"""A finite decimal number. The exponent is limited, because a handler may convert the number to an int."""
_FINITE = re.compile(DECIMAL)
_KINDS: Final[dict[type, tuple[str, ...]]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    type(None): ("null",),
    list: ("array",),
    tuple: ("array",),
    dict: ("object",),
}
_CHECKED: Final = (("uniqueItems", True), ("format", "decimal"))
_Path = tuple[str | int, ...]


class ExactValues:
    """Checks values that msgspec has accepted.

    Args:
        schema: The schema of the values, with its ``$defs``.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> ExactValues | None:
        """Return the checks for a schema; ``None`` if it needs none."""
        return cls(schema) if _needs_checks(schema) else None

    def check(self, value: Any) -> None:
        """Check a value for duplicate items and invalid decimal numbers.

        Raises:
            InvalidParams: An array for a set has duplicate items, or a decimal number is not the text of a finite
                number.
        """
        try:
            self._check(value, self._root, ())
        except RecursionError:
            raise InvalidParams("expected a value that is not nested this deeply") from None

    def _check(self, value: Any, schema: Any, path: _Path) -> None:
        # The chain of references has an end, because msgspec has made the schema.
        while isinstance(schema, Mapping) and "$ref" in schema:
            schema = self._root.get("$defs", {}).get(schema["$ref"].removeprefix("#/$defs/"))
        if not isinstance(schema, Mapping):
            return
        if "anyOf" in schema:
            self._check_any(value, schema["anyOf"], path)
        if schema.get("format") == "decimal" and not (isinstance(value, str) and _FINITE.fullmatch(value)):
            raise InvalidParams(
                f"expected the text of a finite decimal number{place_of(path)}, got {show_value(value)}"
            )
        for step, item, part in _parts(value, schema):
            self._check(item, part, (*path, step))
        if schema.get("uniqueItems") is True and isinstance(value, list | tuple):
            seen: set[Any] = set()
            for number, item in enumerate(value):
                if (key := _identity(item)) in seen:
                    where = place_of((*path, number))
                    raise InvalidParams(f"expected items that differ{where}, got {show_value(item)} again")
                seen.add(key)

    def _check_any(self, value: Any, alternatives: Any, path: _Path) -> None:
        """Check a value of a union: it must match one of the alternatives for its type."""
        first: InvalidParams | None = None
        for each in alternatives:
            if not self._may_match(value, each):
                continue
            try:
                return self._check(value, each, path)
            except InvalidParams as problem:
                # The error of the first alternative is reported, because authors write the usual type first.
                first = first or problem
        if first is None:
            if not any(each.get("format") == "decimal" for each in alternatives):
                return None  # a pydantic model, which has its own rules
            # The value is a number, which msgspec has converted to a Decimal.
            where = place_of(path)
            first = InvalidParams(f"expected a value that fits one of the alternatives{where}, got {show_value(value)}")
        raise first

    def _may_match(self, value: Any, schema: Any) -> bool:
        """Return whether an alternative is for the type of the value, and for the tag of an object."""
        while isinstance(schema, Mapping) and "$ref" in schema:
            schema = self._root.get("$defs", {}).get(schema["$ref"].removeprefix("#/$defs/"))
        if not isinstance(schema, Mapping):
            return True
        if "type" in schema:
            kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
            # For JSON Schema, 1.0 is an integer.
            is_integer = isinstance(value, float) and value.is_integer() and "integer" in kinds
            if not is_integer and not any(kind in kinds for kind in _KINDS.get(type(value), kinds)):
                return False
        # The tag of a class is a member with an `enum`.
        return all(item in part["enum"] for _, item, part in _parts(value, schema) if "enum" in part)


# Private


def _needs_checks(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        return any(schema.get(key) == checked_value for key, checked_value in _CHECKED) or any(
            map(_needs_checks, schema.values())
        )
    return isinstance(schema, list) and any(map(_needs_checks, schema))


def _parts(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[str | int, Any, Mapping[str, Any]]]:
    """Yield the parts of a value, each with its step in the path and its schema."""
    if isinstance(value, Mapping):
        # `additionalProperties` is the schema of a dict's values.
        known, other = schema.get("properties", {}), schema.get("additionalProperties")
        parts = [(key, item, known.get(key, other)) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        first, other = schema.get("prefixItems", ()), schema.get("items")
        parts = [(number, item, [*first[number : number + 1], other][0]) for number, item in enumerate(value)]
    else:
        return
    for step, item, part in parts:
        if isinstance(part, Mapping):
            yield step, item, part


def _identity(item: Any) -> Any:
    """Return a hashable value that is equal for items that are equal in JSON Schema."""
    # In Python True == 1, but in JSON Schema true and 1 differ.
    if isinstance(item, bool):
        return bool, item
    if isinstance(item, list | tuple):
        return tuple(map(_identity, item))
    if isinstance(item, Mapping):
        return frozenset((key, _identity(each)) for key, each in item.items())
    return item
