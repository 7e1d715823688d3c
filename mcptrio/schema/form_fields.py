"""One field of a form from a server: its type and limits, and the conversion of a user's text or a program's value.

:mod:`mcptrio.client.forms` makes the fields, and code that shows a form uses them. An accepted value matches the
server's schema and has a JSON form.

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
"""The type of a field. A ``choice`` is one of several strings, and ``choices`` are any number of them."""

_INTEGERS: Final = (-(2**63), 2**64 - 1)
"""The range of integers that orjson supports."""
_MAX_NUMBER_CHARS = 400
"""Characters of a number. Python takes seconds to parse a million digits."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_POSITION = re.compile(r"[1-9][0-9]{0,8}\Z")
_FORMATS: Final = {
    "email": "an e-mail address",
    "uri": "a URI with its scheme (https:...)",
    "date": "a date (YYYY-MM-DD)",
    "date-time": "a date and time (YYYY-MM-DDThh:mm:ss, then Z or an offset such as +01:00)",
}
"""The formats that are checked, with their descriptions."""
_YES = frozenset({"yes", "y", "true"})
_NO = frozenset({"no", "n", "false"})
_NONE = "none"
_MAX_NAMED_CHOICES = 20
"""Choices that an error lists."""
_MAX_PATTERN_CHARS = 100
"""Characters of a pattern that an error quotes."""
_MAX_TITLE_CHARS = 60
"""Characters of a title that an error quotes."""


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
    """The value if the user enters nothing; a tuple for ``choices``; ``ABSENT`` if there is no default."""
    format: str | None = None
    """The format of a text. Only ``email``, ``uri``, ``date`` and ``date-time`` are checked."""
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    """Unicode code points."""
    max_length: int | None = None
    choices: tuple[Choice, ...] = ()
    min_items: int | None = None
    max_items: int | None = None
    pattern: str | None = None
    """A regular expression that must match anywhere in the text. If it cannot run in linear time, it is not checked."""

    @property
    def expected(self) -> str:
        """A short description of the expected value: ``an integer (1 to 10)``."""
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
        """True if the user may enter the number of a choice. False if a choice itself looks like a number."""
        return not any(_INTEGER.match(text.strip()) for choice in self.choices for text in (choice.value, choice.title))

    def parse(self, text: str) -> Any:
        """Convert a text that a user has entered.

        Args:
            text: For a string, the value itself; for a boolean, yes or no; for a choice, its value, title or number
                (from 1); for several choices, these separated by commas, or ``none``.

        Raises:
            ValueError: The text does not match; the message has the expected value and the actual one.
        """
        match self.kind:
            case "string":
                # Surrounding blanks may belong to a free text, but not to an address or a date.
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
            ValueError: The value does not match; the message has the expected value and the actual one.
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
        # JSON Schema counts code points, as Python does.
        length = len(value)
        if (self.min_length is not None and length < self.min_length) or (
            self.max_length is not None and length > self.max_length
        ):
            raise self._refusal(f"{length} character{'' if length == 1 else 's'}")
        if not _is_unicode(value):
            raise self._refusal(f"a lone surrogate in {quote(value)}")
        for matcher in (
            _matcher("format", self.format) if self.format in _FORMATS else None,
            # None for a pattern with back-references or look-around, which only the server checks.
            _matcher("pattern", self.pattern) if self.pattern is not None else None,
        ):
            try:
                if matcher is not None:
                    matcher.validate(value)
            except InvalidParams:
                raise self._refusal(quote(value)) from None
        return value

    def _check_number(self, value: Any) -> int | float:
        # A bool is an int in Python.
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
        # An integer is not parsed as a float, which would lose the last digits of a large one.
        if _INTEGER.match(text):
            number = int(text)
            if self.kind == "integer" or _INTEGERS[0] <= number <= _INTEGERS[1]:
                return number
        return float(text)

    def _parse_choices(self, text: str) -> list[str]:
        if not text.strip():
            return []
        try:
            return [self._find_choice(text)]  # the whole text first, because a choice may contain a comma
        except ValueError:
            if text.strip().casefold() == _NONE:
                return []
        parts = text.split(",")
        # "1 3" is two numbers, but "New York" is one choice.
        if len(parts) == 1 and self.is_numbered and all(_INTEGER.match(part) for part in text.split()):
            parts = text.split()
        return [self._find_choice(part) for part in parts if part.strip()]

    def _find_choice(self, text: str) -> str:
        """Return the choice with this value, title (in the same case, then in any case) or number.

        Raises:
            ValueError: No choice matches, or several do.
        """
        answer = text.strip()
        for is_equal in _COMPARISONS:
            matches = {choice.value for choice in self.choices if is_equal(choice.value, answer)}
            matches = matches or {choice.value for choice in self.choices if is_equal(choice.title, answer)}
            if len(matches) == 1:
                return matches.pop()
            if matches:
                raise ValueError(f"expected one choice, got {quote(text)}, which matches {len(matches)} of them")
        if self.is_numbered and _POSITION.match(answer) and int(answer) <= len(self.choices):
            return self.choices[int(answer) - 1].value
        raise self._refusal(quote(text))

    def _expected_text(self) -> str:
        noun = _FORMATS.get(self.format or "", "text")
        text = _with_range(noun, self.min_length, self.max_length, unit=" characters")
        if self.pattern is not None:
            text += f" that matches {printable(self.pattern[:_MAX_PATTERN_CHARS])}"
        return text

    def _named_choices(self) -> str:
        names = ", ".join(_name(choice) for choice in self.choices[:_MAX_NAMED_CHOICES])
        return f"{names}, …" if len(self.choices) > _MAX_NAMED_CHOICES else names

    def _refusal(self, got: str) -> ValueError:
        return ValueError(f"expected {self.expected}, got {got}")


def _with_range(noun: str, low: float | None, high: float | None, *, unit: str = "") -> str:
    return f"{noun} ({text}{unit})" if (text := _range(low, high)) else noun


def _range(low: float | None, high: float | None) -> str:
    """Return ``1 to 10``, ``at least 1``, ``at most 10``, ``exactly 3``, or an empty text."""
    if low is not None and high is not None:
        return f"exactly {_number_text(low)}" if low == high else f"{_number_text(low)} to {_number_text(high)}"
    if low is not None:
        return f"at least {_number_text(low)}"
    return f"at most {_number_text(high)}" if high is not None else ""


def _number_text(number: float) -> str:
    return str(int(number)) if isinstance(number, float) and number.is_integer() and abs(number) < 1e15 else str(number)


def _name(choice: Choice) -> str:
    title = "" if choice.title == choice.value else f" ({printable(choice.title[:_MAX_TITLE_CHARS])})"
    return f"{quote(choice.value)}{title}"


def _show(value: Any) -> str:
    return quote(value) if isinstance(value, str) else show_value(value)


def _is_unicode(text: str) -> bool:
    """Return whether the text has no lone surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Cached, because compiling takes about 0.1 ms, and every keystroke may check the field.
@lru_cache(maxsize=64)
def _matcher(keyword: str, value: str | None) -> Validator | None:
    """Return a validator for a format or a pattern; ``None`` if the pattern cannot run in linear time."""
    try:
        return Validator({"type": "string", keyword: value}, formats=True)
    except ValueError:
        return None


def _tidy(text: str, format: str | None) -> str:
    """Replace a space between date and time by the T, which users seldom type."""
    return text.replace(" ", "T", 1) if format == "date-time" else text


_COMPARISONS: Final[Sequence[Callable[[str, str], bool]]] = (
    lambda known, wanted: known.strip() == wanted,
    lambda known, wanted: known.strip().casefold() == wanted.casefold(),
)
