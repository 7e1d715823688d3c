"""The kind of a field's type, and its name on the wire.

:mod:`mcptrio.protocol.revisions.converter` uses it once per field. The model has only ``X | None``, unions of classes,
``tuple[X, ...]``, ``dict[str, X]``, literals, scalars and ``Any``.
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
"""The types of scalars, with their names in messages."""


def camel(name: str) -> str:
    """Return a field's name on the wire."""
    first, *rest = name.split("_")
    # `mime_type` is `mimeType` on the wire; names that differ otherwise are in the history of their field.
    return first + "".join(word.capitalize() for word in rest)


def step(name: str) -> str:
    """Return one step of a path: ``.name`` or ``["any name"]``."""
    # Shortened, because the peer may have chosen the name.
    shown = show_value(name)
    return f".{name}" if name.isidentifier() and shown == f'"{name}"' else f"[{shown}]"


def is_type(cls: Any) -> Callable[[Any], bool]:
    """Return a predicate for one type."""
    return lambda other: bool(other == cls)


def is_optional(cls: Any) -> bool:
    """Return whether it is ``X | None``."""
    return _is_any_union(cls) and NoneType in get_args(cls)


def is_union(cls: Any) -> bool:
    """Return whether it is ``X | Y``."""
    return _is_any_union(cls) and NoneType not in get_args(cls)


def is_literal(cls: Any) -> bool:
    """Return whether it is ``Literal[...]``."""
    return get_origin(cls) is Literal


def is_array(cls: Any) -> bool:
    """Return whether it is ``tuple[X, ...]``."""
    return get_origin(cls) is tuple


def is_object(cls: Any) -> bool:
    """Return whether it is ``dict[str, X]``."""
    return get_origin(cls) is dict


def is_plain(cls: Any) -> bool:
    """Return whether a value of this type is written unchanged."""
    return cls is Any or cls in SCALARS or is_literal(cls) or cls == str | int


def inner_type(optional: Any) -> Any:
    """Return ``X`` of ``X | None``."""
    inner = tuple(member for member in get_args(optional) if member is not NoneType)
    return Union[inner]  # noqa: UP007  # there is no other spelling for a tuple of types


def _is_any_union(cls: Any) -> bool:
    return get_origin(cls) in (Union, UnionType)
