"""Refuses a value of the wrong class where it is passed, in a sentence: its name, the expected class, the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from attrs import Attribute

__all__ = ["expect", "instance", "kind_of", "number", "optional_callable", "whole"]

T = TypeVar("T")

_SHOWN: Final = 60
"""Characters of a value in an error."""


def expect(value: T, cls: type, name: str) -> T:
    """Return the value.

    Args:
        name: of the parameter.

    Raises:
        TypeError: the value is no instance of ``cls``.
    """
    if not isinstance(value, cls):
        raise TypeError(f"{name}: expected {cls.__name__}, got {kind_of(value)}")
    return value


def instance(cls: type) -> Callable[[Any, Attribute[Any], Any], None]:
    """Return a validator of attrs for an instance of ``cls``."""

    def check(owner: Any, attribute: Attribute[Any], value: object) -> None:
        expect(value, cls, f"{type(owner).__name__}: {attribute.name}")

    return check


def whole(least: int) -> Callable[[Any, Attribute[Any], Any], None]:
    """Return a validator of attrs for an integer of at least ``least``."""

    def check(owner: Any, attribute: Attribute[Any], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{type(owner).__name__}: {attribute.name}: expected an integer, got {_shown(value)}")
        if value < least:
            raise ValueError(f"'{attribute.name}' must be >= {least}: {value}")

    return check


def number(owner: Any, attribute: Attribute[Any], value: object) -> None:
    """Validate a number above 0, for attrs."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{type(owner).__name__}: {attribute.name}: expected a number, got {_shown(value)}")
    if not value > 0:
        raise ValueError(f"'{attribute.name}' must be > 0: {value}")


def optional_callable(owner: Any, attribute: Attribute[Any], value: object) -> None:
    """Validate a function or ``None``, for attrs."""
    if value is not None and not callable(value):
        raise TypeError(f"{type(owner).__name__}: {attribute.name}: expected a function, got {kind_of(value)}")


def kind_of(value: object) -> str:
    """Name a value in an error: ``the class Notes``, ``the function now``, ``'fs'``, ``int``."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, str | int | float | None):
        return _shown(value)
    name = getattr(value, "__name__", None)
    return f"the {type(value).__name__} {name}" if isinstance(name, str) else type(value).__name__


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
