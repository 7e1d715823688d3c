"""Predicates for the types of fields, and the names of fields on the wire.

:mod:`mcptrio.protocol.revisions.converter` uses them once for each field. The model has only ``X | None``, unions of
classes, ``tuple[X, ...]``, ``dict[str, X]``, literals, scalars and ``Any``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from mcptrio.protocol.revisions.mismatch import show_value

__all__ = [
    "SCALARS",
    "camel",
    "inner_type",
    "is_array",
    "is_literal",
    "is_object",
    "is_optional",
    "is_plain",
    "is_type",
    "is_union",
    "step",
]

SCALARS: Final[Mapping[type, str]] = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
"""The scalar types, with their names in error messages."""


def camel(name: str) -> str:
    """Return the camelCase form of a name: ``mimeType`` for ``mime_type``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def step(name: str) -> str:
    """Return one step of a path: ``.name`` or ``["any name"]``."""
    # show_value() shortens the name, because the peer may have chosen it.
    quoted = show_value(name)
    return f".{name}" if name.isidentifier() and quoted == f'"{name}"' else f"[{quoted}]"


def is_type(cls: Any) -> Callable[[Any], bool]:
    """Return a predicate for one type."""
    return lambda other: bool(other == cls)


def is_optional(cls: Any) -> bool:
    """Return whether a type is ``X | None``."""
    return _is_any_union(cls) and NoneType in get_args(cls)


def is_union(cls: Any) -> bool:
    """Return whether a type is ``X | Y``, without ``None``."""
    return _is_any_union(cls) and NoneType not in get_args(cls)


def is_literal(cls: Any) -> bool:
    """Return whether a type is ``Literal[...]``."""
    return get_origin(cls) is Literal


def is_array(cls: Any) -> bool:
    """Return whether a type is ``tuple[X, ...]``."""
    return get_origin(cls) is tuple


def is_object(cls: Any) -> bool:
    """Return whether a type is ``dict[str, X]``."""
    return get_origin(cls) is dict


def is_plain(cls: Any) -> bool:
    """Return whether a value of this type is written unchanged."""
    return cls is Any or cls in SCALARS or is_literal(cls) or cls == str | int


def inner_type(optional: Any) -> Any:
    """Return ``X`` of ``X | None``."""
    inner = tuple(member for member in get_args(optional) if member is not NoneType)
    return Union[inner]  # noqa: UP007  # `|` cannot combine a tuple of types


def _is_any_union(cls: Any) -> bool:
    return get_origin(cls) in (Union, UnionType)
