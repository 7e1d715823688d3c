"""Error messages about settings, in the terms of TOML.

:mod:`mcptrio.settings.reader` uses them. A message shows a value only if it cannot be a secret.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from datetime import date, time
from typing import Any, TypeAlias, get_args, get_origin

import msgspec

from mcptrio.ground.expected import kind_of

__all__ = ["HIDDEN_VALUE", "Key", "place_of", "sentence", "shown"]

Key: TypeAlias = tuple[str, ...]
"""The path of a key: ``("plugins", "git", "repositories")``."""

HIDDEN_VALUE = "a value that is not shown"

_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""The types of msgspec in the terms of TOML."""


_MEMBER_ERROR = re.compile(r"\w+: expected ")
"""The beginning of an error in which the class of a setting names one of its members."""


def place_of(error: msgspec.ValidationError, hint: Any) -> tuple[Key, str]:
    """Return the place in the value, and the problem in the terms of TOML."""
    text, _, path = str(error).partition(" - at `$")
    place = tuple(re.findall(r"\.(\w+)", path))
    if _MEMBER_ERROR.match(text):
        return place, text
    if text.startswith("Invalid enum value"):
        choices = ", ".join(str(each) for each in _choices(hint))
        others = [_WORDS[each.__name__] for each in get_args(hint) if getattr(each, "__name__", "") in _WORDS]
        return (
            place,
            f"expected {' or '.join([*others, f'one of {choices}' if choices else 'one of the known values'])}",
        )
    # msgspec repeats the value's type; the caller shows the value itself.
    text = re.sub(r", got .*", "", text)
    text = re.sub(
        r"`([^`]+)`", lambda found: " or ".join(_WORDS.get(word, word) for word in found[1].split(" | ")), text
    )
    return place, text[:1].lower() + text[1:]


def says_all(problem: str) -> bool:
    """Return whether the class of a setting names the invalid member, so that the whole value need not be shown."""
    return _MEMBER_ERROR.match(problem) is not None


def _choices(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is typing.Literal:
        yield from get_args(hint)
    else:
        for each in get_args(hint):
            yield from _choices(each)


def sentence(error: BaseException) -> str:
    """Return the first argument of an error. Validators of attrs append the attribute and more."""
    return str(error.args[0]) if error.args else type(error).__name__


def shown(value: Any, place: Key) -> str:
    """Return a value for a message, or nothing."""
    for part in place:
        if not isinstance(value, dict) or part not in value:
            return ""  # inside a list or a table of tables, where msgspec does not say which
        value = value[part]
    if isinstance(value, date | time):
        return "a date or time"
    return "a list" if isinstance(value, list) else "a table" if isinstance(value, dict) else kind_of(value)
