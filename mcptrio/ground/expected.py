"""Checks values of parameters and options, with errors that name the parameter, the expected and the actual value.

Used by functions and by every class of options, limits and timeouts. A program gets ``ServerLimits: sessions: expected
an integer of at least 1, got 0``, a configuration file the same without the class.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any, Final, TypeAlias, TypeVar

from attrs import Attribute, frozen
from attrs.validators import optional

__all__ = [
    "PROGRAM_ONLY",
    "Range",
    "Validator",
    "expect",
    "instance",
    "integer",
    "kind_of",
    "number",
    "optional",
    "optional_callable",
]

T = TypeVar("T")

Validator: TypeAlias = Callable[[Any, "Attribute[Any]", Any], None]

PROGRAM_ONLY: Final = {"mcptrio": "program only"}
"""Metadata of a field that only a program sets, and that is not a key of the configuration."""
_MAX_QUOTED_CHARS: Final = 60
"""Characters of a value in an error."""


def expect(value: T, cls: type, name: str) -> T:
    """Return the value.

    Args:
        name: The name of the parameter.

    Raises:
        TypeError: The value is not an instance of ``cls``.
    """
    if not isinstance(value, cls):
        raise TypeError(f"{name}: expected {cls.__name__}, got {kind_of(value)}")
    return value


@frozen
class Range:
    """Validates a number between two bounds, for attrs. NaN is outside.

    Args:
        kind: The type of the numbers: ``int``, or ``float`` for integers too.
        expected: The range in words, for errors.
    """

    kind: type[int | float]
    expected: str
    least: float | None = None
    most: float | None = None
    above: float | None = None

    def __call__(self, owner: Any, attribute: Attribute[Any], value: Any) -> None:
        # In Python a bool is an int, and `sessions = true` is a mistake.
        if isinstance(value, bool) or not isinstance(value, int | self.kind):
            raise TypeError(self._problem(owner, attribute, value))
        if (
            # Every comparison with NaN is false, so it would pass all bounds.
            isnan(value)
            or (self.above is not None and value <= self.above)
            or (self.least is not None and value < self.least)
            or (self.most is not None and value > self.most)
        ):
            raise ValueError(self._problem(owner, attribute, value))

    def _problem(self, owner: Any, attribute: Attribute[Any], value: Any) -> str:
        return f"{_place(owner, attribute)}: expected {self.expected}, got {kind_of(value)}"


def integer(least: int, most: int | None = None) -> Range:
    """Return a validator of attrs for an integer in a range, both ends included.

    Raises:
        TypeError: The value is not an integer.
        ValueError: It is outside of the range.
    """
    return Range(int, f"an integer {_range(least, most)}", least, most)


def number(least: float | None = None, most: float | None = None, *, above: float | None = None) -> Range:
    """Return a validator of attrs for an integer or a float in a range.

    Args:
        least, most: The ends of the range, included.
        above: The lower end of the range, not included.

    Raises:
        TypeError: The value is not a number.
        ValueError: It is outside of the range.
    """
    expected = f"a number above {above}" if above is not None else f"a number {_range(least, most)}"
    return Range(float, expected, least, most, above)


def instance(cls: type) -> Validator:
    """Return a validator of attrs for an instance of ``cls``."""

    def check(owner: Any, attribute: Attribute[Any], value: object) -> None:
        expect(value, cls, _place(owner, attribute))

    return check


def optional_callable(owner: Any, attribute: Attribute[Any], value: object) -> None:
    """Validate a function or ``None``, for attrs."""
    if value is not None and not callable(value):
        raise TypeError(f"{_place(owner, attribute)}: expected a function, got {kind_of(value)}")


def kind_of(value: object) -> str:
    """Name a value in an error: ``the class Notes``, ``the function now``, ``'fs'``, ``int``."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float | None):
        text = repr(value)
        return text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS]}…"
    name = getattr(value, "__name__", None)
    return f"the {type(value).__name__} {name}" if isinstance(name, str) else type(value).__name__


def _place(owner: Any, attribute: Attribute[Any]) -> str:
    return f"{type(owner).__name__}: {attribute.name}"


def _range(least: float | None, most: float | None) -> str:
    return f"from {least} to {most}" if most is not None else f"of at least {least}"
