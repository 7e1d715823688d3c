"""Checks values of parameters and options, with errors that name the parameter, the expected and the actual value.

Used by functions and by every class of options, limits and timeouts. In a program, an error reads ``ServerLimits:
sessions: expected an integer of at least 1, got 0``. The reader of a configuration file omits the class.
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
"""Metadata of a field that only a program can set: it is not a key of the configuration."""
_MAX_QUOTED_CHARS: Final = 60
"""Characters of a value that an error quotes."""


def expect(value: T, cls: type, name: str) -> T:
    """Return the value if it is an instance of ``cls``.

    Args:
        name: The name of the parameter, for the error.

    Raises:
        TypeError: The value is not an instance of ``cls``.
    """
    if not isinstance(value, cls):
        raise TypeError(f"{name}: expected {cls.__name__}, got {kind_of(value)}")
    return value


@frozen
class Range:
    """An attrs validator for a number between two bounds. NaN is always refused.

    Args:
        kind: The type of the number: ``int`` for integers only, ``float`` for integers and floats.
        expected: The range in words, for errors.
        least, most: The ends of the range, included.
        above: The lower end of the range, excluded.
    """

    kind: type[int | float]
    expected: str
    least: float | None = None
    most: float | None = None
    above: float | None = None

    def __call__(self, owner: Any, attribute: Attribute[Any], value: Any) -> None:
        # isinstance(True, int) holds in Python, but `sessions = true` is a mistake.
        if isinstance(value, bool) or not isinstance(value, int | self.kind):
            raise TypeError(self._problem(owner, attribute, value))
        if (
            # Every comparison with NaN is false, so NaN would pass all bounds.
            isnan(value)
            or (self.above is not None and value <= self.above)
            or (self.least is not None and value < self.least)
            or (self.most is not None and value > self.most)
        ):
            raise ValueError(self._problem(owner, attribute, value))

    def _problem(self, owner: Any, attribute: Attribute[Any], value: Any) -> str:
        return f"{_place(owner, attribute)}: expected {self.expected}, got {kind_of(value)}"


def integer(least: int, most: int | None = None) -> Range:
    """Return an attrs validator for an integer in a range, both ends included.

    The validator raises TypeError for a value that is not an integer, and ValueError for one outside of the range.
    """
    return Range(int, f"an integer {_range(least, most)}", least, most)


def number(least: float | None = None, most: float | None = None, *, above: float | None = None) -> Range:
    """Return an attrs validator for an integer or a float in a range.

    The validator raises TypeError for a value that is not a number, and ValueError for one outside of the range.

    Args:
        least, most: The ends of the range, included.
        above: The lower end of the range, excluded.
    """
    expected = f"a number above {above}" if above is not None else f"a number {_range(least, most)}"
    return Range(float, expected, least, most, above)


def instance(cls: type) -> Validator:
    """Return an attrs validator for an instance of ``cls``."""

    def check(owner: Any, attribute: Attribute[Any], value: object) -> None:
        expect(value, cls, _place(owner, attribute))

    return check


def optional_callable(owner: Any, attribute: Attribute[Any], value: object) -> None:
    """An attrs validator for a function or ``None``."""
    if value is not None and not callable(value):
        raise TypeError(f"{_place(owner, attribute)}: expected a function, got {kind_of(value)}")


def kind_of(value: object) -> str:
    """Return a short description of a value, for errors: ``the class Notes``, ``the function now``, ``'fs'``."""
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
