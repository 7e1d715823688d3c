"""Adds a name to a list of a configuration file, or removes it, in the file's text.

``mcptrio plugins enable`` and ``disable`` use it. Only the name changes, with its comma,
and with its line if the name was alone on it.

Source: TOML 1.0.0.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from mcptrio.cli.install.edits import Splice, apply_splices, newline_of
from mcptrio.cli.install.toml_text import parse, statements, strings

__all__ = ["UneditableList", "add_name", "remove_name"]

_TABLE = "server"


class UneditableList(ValueError):
    """The list cannot be edited without changing more of the text."""


def add_name(text: str, key: str, name: str) -> str:
    """Return the text with a name in the list ``server.KEY``, which is created if it is missing.

    Raises:
        UneditableList: The table is on one line, or in a form that is not supported.
    """
    # A JSON string is a basic string of TOML too.
    value = json.dumps(name, ensure_ascii=False)
    array = _find_list(text, key)
    if array is None:
        return _check_edit(_add_list(text, f"{key} = [{value}]"), text, key, name, is_in=True)
    start, items = array
    # Inserted directly after the last item, so a trailing comma or comment stays valid.
    offset, new_text = (items[-1][1], f", {value}") if items else (start + 1, value)
    return _check_edit(apply_splices(text, [Splice(offset, offset, new_text)]), text, key, name, is_in=True)


def remove_name(text: str, key: str, name: str) -> str:
    """Return the text without a name in the list ``server.KEY``.

    Raises:
        UneditableList: The list is in a form that is not supported.
    """
    _, items = _find_list(text, key) or (0, [])
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
    return _check_edit(apply_splices(text, splices), text, key, name, is_in=False)


def _find_list(text: str, key: str) -> tuple[int, list[tuple[int, int]]] | None:
    """Return the start of a list, and the start and end of each item.

    Raises:
        UneditableList: The list exists in a form that cannot be edited.
    """
    for each in statements(text):
        if each.keys == (_TABLE, key) and each.value is not None:
            if not text.startswith("[", each.value):
                raise UneditableList("expected a list of strings")
            return each.value, list(strings(text, each.value))
    # The list exists, but not as a separate statement: in an inline table, for example.
    if key in parse(text).get(_TABLE, {}):
        raise UneditableList(f"expected {_TABLE}.{key} on separate lines")
    return None


def _add_list(text: str, line: str) -> str:
    """Add a key after the last one of its table, or with a new table."""
    newline = newline_of(text)
    offset: int | None = None
    is_dotted = False
    for each in statements(text):
        if each.is_table:
            if each.keys == (_TABLE,):
                offset, is_dotted = each.end, False
        elif each.table == (_TABLE,) and not is_dotted:
            offset = each.end
        elif not each.table and each.keys[0] == _TABLE:
            offset, is_dotted = each.end, True
    if offset is None:
        gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
        return f"{text}{gap}[{_TABLE}]{newline}{line}{newline}"
    before = "" if text[:offset].endswith("\n") else newline
    return f"{text[:offset]}{before}{f'{_TABLE}.' if is_dotted else ''}{line}{newline}{text[offset:]}"


def _check_edit(edited: str, text: str, key: str, name: str, *, is_in: bool) -> str:
    # The edited text is parsed and compared with the expected value, because a wrong edit could change other settings.
    expected: dict[str, Any] = parse(text)
    names = expected.setdefault(_TABLE, {}).setdefault(key, [])
    expected[_TABLE][key] = [*names, name] if is_in else [each for each in names if each != name]
    try:
        is_right = parse(edited) == expected
    except ValueError:
        is_right = False
    if not is_right:
        raise UneditableList(f"{_TABLE}.{key} is written in a form that cannot be edited")
    return edited
