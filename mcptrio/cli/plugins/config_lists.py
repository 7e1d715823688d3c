"""Adds a name to a list of a configuration file, or removes it, in the file's text.

``mcptrio plugins enable`` and ``disable`` use it. Only the name changes, with its comma and a line that it had alone.

Source: TOML 1.0.0.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from mcptrio.cli.install.edits import Splice, newline_of, spliced
from mcptrio.cli.install.toml_text import parse, statements, strings

__all__ = ["Inline", "with_name", "without_name"]

_TABLE = "server"


class Inline(ValueError):
    """The list cannot be edited without changing more of the text."""


def with_name(text: str, key: str, name: str) -> str:
    """Return the text with a name in the list ``server.KEY``, which is created if it is missing.

    Raises:
        Inline: The table is on one line, or in a form that is not supported.
    """
    # A JSON string is a basic string of TOML too.
    value = json.dumps(name, ensure_ascii=False)
    found = _find(text, key)
    if found is None:
        return _check(_with_list(text, f"{key} = [{value}]"), text, key, name, is_in=True)
    start, items = found
    # Inserted directly after the last item, so a trailing comma or comment stays valid.
    at, added = (items[-1][1], f", {value}") if items else (start + 1, value)
    return _check(spliced(text, [Splice(at, at, added)]), text, key, name, is_in=True)


def without_name(text: str, key: str, name: str) -> str:
    """Return the text without a name in the list ``server.KEY``.

    Raises:
        Inline: The list is in a form that is not supported.
    """
    _, items = _find(text, key) or (0, [])
    splices = []
    for number, (start, end) in enumerate(items):
        # Parsed, because one name can be written with several kinds of quotes.
        if tomllib.loads(f"x = {text[start:end]}")["x"] != name:
            continue
        comma = re.compile(r"[ \t]*,").match(text, end)
        end = comma.end() if comma else end
        line = text.rfind("\n", 0, start) + 1
        rest = re.compile(r"[ \t]*\r?\n").match(text, end)
        if rest and not text[line:start].strip():
            # The item is alone on its line, so the line is removed with it.
            start, end = line, rest.end()
        elif comma:
            space = re.compile(r"[ \t]*").match(text, end)
            end = space.end() if space and number + 1 < len(items) else end
        elif number:
            # The last item has no comma after it, so the one before is removed.
            start = items[number - 1][1]
        splices.append(Splice(start, end, ""))
    return _check(spliced(text, splices), text, key, name, is_in=False)


def _find(text: str, key: str) -> tuple[int, list[tuple[int, int]]] | None:
    """Return the start of a list, and the start and end of each item.

    Raises:
        Inline: The list exists in a form that cannot be edited.
    """
    for each in statements(text):
        if each.keys == (_TABLE, key) and each.value is not None:
            if not text.startswith("[", each.value):
                raise Inline("expected a list of strings")
            return each.value, list(strings(text, each.value))
    # The list exists, but not as a separate statement: in an inline table, for example.
    if key in parse(text).get(_TABLE, {}):
        raise Inline(f"expected {_TABLE}.{key} on separate lines")
    return None


def _with_list(text: str, line: str) -> str:
    """Add a key after the last one of its table, or with a new table."""
    newline = newline_of(text)
    place: int | None = None
    dotted = False
    for each in statements(text):
        if each.is_table:
            if each.keys == (_TABLE,):
                place, dotted = each.end, False
        elif each.table == (_TABLE,) and not dotted:
            place = each.end
        elif not each.table and each.keys[0] == _TABLE:
            place, dotted = each.end, True
    if place is None:
        gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
        return f"{text}{gap}[{_TABLE}]{newline}{line}{newline}"
    before = "" if text[:place].endswith("\n") else newline
    return f"{text[:place]}{before}{f'{_TABLE}.' if dotted else ''}{line}{newline}{text[place:]}"


def _check(edited: str, text: str, key: str, name: str, *, is_in: bool) -> str:
    # The edited text is parsed and compared with the expected value, because a wrong edit could change other settings.
    expected: dict[str, Any] = parse(text)
    names = expected.setdefault(_TABLE, {}).setdefault(key, [])
    expected[_TABLE][key] = [*names, name] if is_in else [each for each in names if each != name]
    try:
        is_right = parse(edited) == expected
    except ValueError:
        is_right = False
    if not is_right:
        raise Inline(f"{_TABLE}.{key} is written in a form that cannot be edited")
    return edited
