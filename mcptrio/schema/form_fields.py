"""One field of a form from a server: its type and limits, and the conversion of a user's text or a program's value.

:mod:`mcptrio.client.forms` makes them, and code that shows a form uses them. An accepted value fits the server's schema
and has a JSON form.

Source: MCP 2026-07-28, client/elicitation, "Requested Schema"; MCP 2025-11-25, client/elicitation (``pattern``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from attrs import Factory, field, frozen

from mcptrio.errors import InvalidParams
from mcptrio.ground.quoting import printable, quote
from mcptrio.protocol.model.fields import ABSENT
from mcptrio.schema.validation import Validator
from mcptrio.schema.validation_messages import show_value

__all__ = ["Choice", "FieldKind", "FormField"]

FieldKind: TypeAlias = Literal["string", "number", "integer", "boolean", "choice", "choices"]
"""``choice`` is one of several strings, ``choices`` some of them."""

_INTEGERS: Final = (-(2**63), 2**64 - 1)
"""The integers that our JSON library can read and write; larger ones are refused."""
# Python parses a number of a million digits for seconds.
_MAX_NUMBER_CHARS = 400
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_POSITION = re.compile(r"[1-9][0-9]{0,8}\Z")
_FORMATS: Final = {
    "email": "an e-mail address",
    "uri": "a URI with its scheme (https:...)",
    "date": "a date (YYYY-MM-DD)",
    "date-time": "a date and time (YYYY-MM-DDThh:mm:ss, then Z or an offset such as +01:00)",
}
"""The formats that are checked, in words."""
_YES = frozenset({"yes", "y", "true"})
_NO = frozenset({"no", "n", "false"})
_NONE = "none"
_NAMED = 20
"""Choices that an error names."""
_MAX_PATTERN_CHARS = 100
_MAX_TITLE_CHARS = 60
"""Characters of a pattern, and of a title, that an error repeats."""


@frozen(kw_only=True)
class Choice:
    """One choice of a field."""

    value: str
    """The value to send."""
    title: str = field(default=Factory(lambda self: self.value, takes_self=True))
    """The text to show."""


@frozen(kw_only=True)
class FormField:
    """A field: its title, its type and its limits."""

    name: str
    title: str = field(default=Factory(lambda self: self.name, takes_self=True))
    description: str | None = None
    kind: FieldKind
    required: bool = False
    default: Any = ABSENT
    """The value if nothing is entered; a tuple for ``choices``. ``ABSENT`` if there is none."""
    format: str | None = None
    """Checked if it is ``email``, ``uri``, ``date`` or ``date-time``; any other is only a note."""
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    """Characters, as Unicode counts them."""
    max_length: int | None = None
    choices: tuple[Choice, ...] = ()
    min_items: int | None = None
    max_items: int | None = None
    pattern: str | None = None
    """A regular expression, found anywhere in the text. One that cannot be run in linear time is not checked."""

    @property
    def expected(self) -> str:
        """The expected value in a few words: ``an integer (1 to 10)``."""
        match self.kind:
            case "string":
                return self._expected_text()
            case "number" | "integer":
                noun = "a number" if self.kind == "number" else "an integer"
                return _with_range(noun, self.minimum, self.maximum)
            case "boolean":
                return "yes or no"
            case "choice":
                return f"one of {self._named_choices()}"
            case "choices":
                return f"{_range(self.min_items, self.max_items) or 'any'} of {self._named_choices()}"

    @property
    def is_numbered(self) -> bool:
        """Whether a choice may also be typed as its number: not if a choice itself looks like a number."""
        return not any(_INTEGER.match(text.strip()) for choice in self.choices for text in (choice.value, choice.title))

    def parse(self, text: str) -> Any:
        """Convert the text that a user typed.

        Args:
            text: A text unchanged; yes or no; a choice by value, title or number (from 1); several choices separated by
                commas, or ``none``.

        Raises:
            ValueError: The text does not fit; the message has the expected value and the actual one.
        """
        match self.kind:
            case "string":
                # Blanks are part of a free text, but not of an address or a date.
                return self.check(_tidy(text.strip(), self.format) if self.format in _FORMATS else text)
            case "number" | "integer":
                return self.check(self._parse_number(text.strip()))
            case "boolean":
                word = text.strip().casefold()
                if word not in _YES | _NO:
                    raise self._refusal(quote(text))
                return word in _YES
            case "choice":
                return self._find_choice(text)
            case "choices":
                return self.check(self._parse_choices(text))

    def check(self, value: Any) -> Any:
        """Check a JSON value.

        Returns:
            The value to send: 4 for 4.0 if the field is an integer, a list for a tuple.

        Raises:
            ValueError: The value does not fit; the message has the expected value and the actual one.
        """
        match self.kind:
            case "string":
                return self._check_text(value)
            case "number" | "integer":
                return self._check_number(value)
            case "boolean":
                if not isinstance(value, bool):
                    raise ValueError(f"expected a boolean, got {_show(value)}")
                return value
            case "choice":
                if not isinstance(value, str) or all(value != choice.value for choice in self.choices):
                    raise self._refusal(_show(value))
                return value
            case "choices":
                return self._check_choices(value)

    def _check_text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._refusal(_show(value))
        # Code points, as JSON Schema counts lengths.
        length = len(value)
        if (self.min_length is not None and length < self.min_length) or (
            self.max_length is not None and length > self.max_length
        ):
            raise self._refusal(f"{length} character{'' if length == 1 else 's'}")
        if not _is_unicode(value):
            raise self._refusal(f"half a character in {quote(value)}")
        for matcher in (
            _matcher("format", self.format) if self.format in _FORMATS else None,
            # A pattern that needs back-references or look-around is left to the server.
            _matcher("pattern", self.pattern) if self.pattern is not None else None,
        ):
            try:
                if matcher is not None:
                    matcher.validate(value)
            except InvalidParams:
                raise self._refusal(quote(value)) from None
        return value

    def _check_number(self, value: Any) -> int | float:
        # In Python a bool is an int.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._refusal(_show(value))
        number: int | float = value
        if isinstance(number, float):
            if not math.isfinite(number) or (self.kind == "integer" and not number.is_integer()):
                raise self._refusal(_show(value))
            number = int(number) if self.kind == "integer" else number
        if isinstance(number, int) and not _INTEGERS[0] <= number <= _INTEGERS[1]:
            raise self._refusal("an integer of more than 64 bits")
        if (self.minimum is not None and number < self.minimum) or (self.maximum is not None and number > self.maximum):
            raise self._refusal(_show(value))
        return number

    def _check_choices(self, value: Any) -> list[str]:
        if not isinstance(value, list | tuple):
            raise self._refusal(_show(value))
        values = {choice.value for choice in self.choices}
        seen: set[str] = set()
        for item in value:
            if not isinstance(item, str) or item not in values:
                raise self._refusal(_show(item))
            if item in seen:
                raise self._refusal(f"{_show(item)} twice")
            seen.add(item)
        if len(value) < (self.min_items or 0) or (self.max_items is not None and len(value) > self.max_items):
            raise self._refusal(str(len(value)))
        return list(value)

    def _parse_number(self, text: str) -> int | float:
        if len(text) > _MAX_NUMBER_CHARS or not _NUMBER.match(text):
            raise self._refusal(quote(text))
        # Through int, because a float would lose the last digits of a large integer.
        if _INTEGER.match(text):
            number = int(text)
            if self.kind == "integer" or _INTEGERS[0] <= number <= _INTEGERS[1]:
                return number
        return float(text)

    def _parse_choices(self, text: str) -> list[str]:
        if not text.strip():
            return []
        try:
            return [self._find_choice(text)]  # first as a whole: there may be a comma in it
        except ValueError:
            if text.strip().casefold() == _NONE:
                return []
        parts = text.split(",")
        # "1 3" is two numbers, but "New York" is one choice.
        if len(parts) == 1 and self.is_numbered and all(_INTEGER.match(part) for part in text.split()):
            parts = text.split()
        return [self._find_choice(part) for part in parts if part.strip()]

    def _find_choice(self, text: str) -> str:
        """Find a choice by value, by title, by either in any case, or by number; ambiguous text is refused."""
        wanted = text.strip()
        for same in _SAME:
            found = {choice.value for choice in self.choices if same(choice.value, wanted)}
            found = found or {choice.value for choice in self.choices if same(choice.title, wanted)}
            if len(found) == 1:
                return found.pop()
            if found:
                raise ValueError(f"expected one choice, got {quote(text)}, which may be {len(found)} of them")
        if self.is_numbered and _POSITION.match(wanted) and int(wanted) <= len(self.choices):
            return self.choices[int(wanted) - 1].value
        raise self._refusal(quote(text))

    def _expected_text(self) -> str:
        noun = _FORMATS.get(self.format or "", "text")
        text = _with_range(noun, self.min_length, self.max_length, unit=" characters")
        if self.pattern is not None:
            text += f" that matches {printable(self.pattern[:_MAX_PATTERN_CHARS])}"
        return text

    def _named_choices(self) -> str:
        names = ", ".join(_name(choice) for choice in self.choices[:_NAMED])
        return f"{names}, …" if len(self.choices) > _NAMED else names

    def _refusal(self, got: str) -> ValueError:
        return ValueError(f"expected {self.expected}, got {got}")


def _with_range(noun: str, low: float | None, high: float | None, *, unit: str = "") -> str:
    return f"{noun} ({text}{unit})" if (text := _range(low, high)) else noun


def _range(low: float | None, high: float | None) -> str:
    """``1 to 10``, ``at least 1``, ``at most 10``, ``exactly 3``, or nothing."""
    if low is not None and high is not None:
        return f"exactly {_plain(low)}" if low == high else f"{_plain(low)} to {_plain(high)}"
    if low is not None:
        return f"at least {_plain(low)}"
    return f"at most {_plain(high)}" if high is not None else ""


def _plain(number: float) -> str:
    return str(int(number)) if isinstance(number, float) and number.is_integer() and abs(number) < 1e15 else str(number)


def _name(choice: Choice) -> str:
    title = "" if choice.title == choice.value else f" ({printable(choice.title[:_MAX_TITLE_CHARS])})"
    return f"{quote(choice.value)}{title}"


def _show(value: Any) -> str:
    return quote(value) if isinstance(value, str) else show_value(value)


def _is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode the text, which excludes lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Compiling takes about 0.1 ms, and every keystroke may check the field.
@lru_cache(maxsize=64)
def _matcher(keyword: str, value: str | None) -> Validator | None:
    """Return a format, or a pattern compiled for linear time; ``None`` if that is impossible."""
    try:
        return Validator({"type": "string", keyword: value}, formats=True)
    except ValueError:
        return None


def _tidy(text: str, format: str | None) -> str:
    """Replace the space between date and time, which is easier to type than a T."""
    return text.replace(" ", "T", 1) if format == "date-time" else text


_SAME: Final[Sequence[Callable[[str, str], bool]]] = (
    lambda known, wanted: known.strip() == wanted,
    lambda known, wanted: known.strip().casefold() == wanted.casefold(),
)
