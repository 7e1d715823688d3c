"""Error messages about settings, in the terms of TOML.

:mod:`mcptrio.settings.reader` uses them. A message shows a value only if the value cannot be a secret.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from datetime import date, time
from typing import Any, TypeAlias, get_args, get_origin

import msgspec

from mcptrio.ground.expected import kind_of

__all__ = ["HIDDEN_VALUE", "Key", "describe_value", "first_argument", "locate_problem"]

Key: TypeAlias = tuple[str, ...]
"""The path of a key: ``("plugins", "git", "repositories")``."""

HIDDEN_VALUE = "a value that is not shown"

_TOML_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""TOML's terms for msgspec's names of types."""

# The error of a settings class may begin with the name of the invalid member, such as "port: expected ...".
_MEMBER_ERROR = re.compile(r"\w+: expected ")


def locate_problem(error: msgspec.ValidationError, hint: Any) -> tuple[Key, str]:
    """Return the path of the invalid part in a value, and its problem in the terms of TOML.

    Args:
        hint: The type to which msgspec could not convert the value.
    """
    text, _, path = str(error).partition(" - at `$")
    place = tuple(re.findall(r"\.(\w+)", path))
    if _MEMBER_ERROR.match(text):
        return place, text
    if text.startswith("Invalid enum value"):
        choices = ", ".join(str(each) for each in _choices(hint))
        others = [_TOML_TYPES[each.__name__] for each in get_args(hint) if getattr(each, "__name__", "") in _TOML_TYPES]
        return (
            place,
            f"expected {' or '.join([*others, f'one of {choices}' if choices else 'one of the known values'])}",
        )
    # msgspec repeats the value's type; the caller shows the value itself.
    text = re.sub(r", got .*", "", text)
    text = re.sub(
        r"`([^`]+)`", lambda found: " or ".join(_TOML_TYPES.get(word, word) for word in found[1].split(" | ")), text
    )
    return place, text[:1].lower() + text[1:]


def names_member(problem: str) -> bool:
    """Return True if the message names the invalid member, so that it need not show the whole value."""
    return _MEMBER_ERROR.match(problem) is not None


def _choices(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is typing.Literal:
        yield from get_args(hint)
    else:
        for each in get_args(hint):
            yield from _choices(each)


def first_argument(error: BaseException) -> str:
    """Return the message of an error. The validators of attrs add further arguments to it."""
    return str(error.args[0]) if error.args else type(error).__name__


def describe_value(value: Any, place: Key) -> str:
    """Return a description of the part of a value at a path, for a message; empty if there is no such part."""
    for part in place:
        if not isinstance(value, dict) or part not in value:
            return ""  # inside a list or a table of tables, where msgspec does not name the item
        value = value[part]
    if isinstance(value, date | time):
        return "a date or time"
    return "a list" if isinstance(value, list) else "a table" if isinstance(value, dict) else kind_of(value)
