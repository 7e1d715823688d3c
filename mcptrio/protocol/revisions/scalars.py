"""Readers of strings, numbers and booleans, as strict as JSON Schema.

:mod:`mcptrio.protocol.revisions.converter` uses them. A boolean is not an integer, and an integer is a number.

Source: JSON Schema 2020-12, Core 4.2.1 (types).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from mcptrio.protocol.revisions.mismatch import Mismatch

__all__ = ["SCALARS", "scalar_union_reader"]

_EXPECTED: Final[Mapping[type, str]] = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


def scalar_union_reader(cls: Any) -> Callable[[Any, Any], Any]:
    """Return the reader of a union of such types (``str | int``)."""
    members = get_args(cls)
    expected = " or ".join(_EXPECTED[member] for member in members)

    def read_scalar(value: Any, _: Any) -> Any:
        # Exact classes: True would pass as an int otherwise.
        if value.__class__ not in members:
            raise Mismatch(expected, value)
        return value

    return read_scalar


def _read_string(value: Any, _: Any) -> Any:
    if value.__class__ is not str:
        raise Mismatch("a string", value)
    return value


def _read_integer(value: Any, _: Any) -> Any:
    if value.__class__ is not int:  # by exact class: isinstance() takes a bool for an int
        raise Mismatch("an integer", value)
    return value


def _read_number(value: Any, _: Any) -> Any:
    if value.__class__ is not float and value.__class__ is not int:
        raise Mismatch("a number", value)
    return value


def _read_boolean(value: Any, _: Any) -> Any:
    if value.__class__ is not bool:
        raise Mismatch("true or false", value)
    return value


SCALARS: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    str: _read_string,
    int: _read_integer,
    float: _read_number,
    bool: _read_boolean,
}
"""The readers, by type."""
