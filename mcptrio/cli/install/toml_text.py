"""Adds, replaces or removes one table of a TOML file, in its text.

Only statements with our keys are changed; a new table is added at the end.

Source: TOML 1.0.0.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from mcptrio.cli.install.edits import Keys, Splice, Uneditable, Unreadable, apply_splices, newline_of

__all__ = ["Statement", "parse", "put", "remove", "statements", "strings"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PART = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")
_SPACE = re.compile(r"(?:[ \t\r\n]|\#[^\n]*)*")
_BLANKS = re.compile(r"[ \t]*")
_HEADER = re.compile(r"\[\[?[ \t]*")
_END_OF_LINE = re.compile(r"[^\n]*(?:\n|\Z)")
# A multi-line string may end with one or two quotes before its delimiter, five in all (TOML 1.0.0, "String").
_VALUE = re.compile(
    r'''
      (?P<text>"""(?:\\.|[^\\])*?"{3,5} | \'\'\'.*?\'{3,5} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*')
    | (?P<comment>\#[^\n]*)
    | (?P<mark>[\[\]{}\n])
    | (?P<rest>[^"'\#\[\]{}\n]+)
    ''',
    re.VERBOSE | re.DOTALL,
)


def parse(text: str) -> dict[str, Any]:
    """Parse a TOML document.

    Raises:
        Unreadable: The text is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, _, place = str(error).partition(" (at ")
        match = re.match(r"line (\d+), column (\d+)", place)
        # For a fault at the end, tomllib says "at end of document".
        line, column = (int(match[1]), int(match[2])) if match else (text.count("\n") + 1, 1)
        raise Unreadable(f"expected TOML: {problem}", line, column) from None
    except RecursionError:
        raise Unreadable("expected TOML: nested too deeply", 1, 1) from None


def put(text: str, keys: Keys, entry: Mapping[str, Any]) -> str:
    """Return the text with the entry as a table, new or in place of the existing one.

    Raises:
        Uneditable: The parent table is on one line.
    """
    newline = newline_of(text)
    _refuse_inline_tables(text, keys)
    runs = list(_merged_statements(text, keys))
    table = _format_table(keys, entry, newline)
    if runs and runs[0].is_table:
        # Other tables may separate the parts of the entry. The new table replaces the first part.
        return apply_splices(
            text, [Splice(each.start, each.end, "" if number else table) for number, each in enumerate(runs)]
        )
    # Without a header the entry consists of dotted keys. The table is added at the end, because all keys after its
    # header belong to it.
    text = apply_splices(text, [Splice(each.start, each.end, "") for each in runs])
    if text and not text.endswith("\n"):
        text += newline
    # One blank line between tables, as is usual in TOML files.
    if text.strip() and not text.endswith(("\n\n", "\n\r\n")):
        text += newline
    return text + table


def remove(text: str, keys: Keys) -> str:
    """Return the text without the table of this name.

    Raises:
        Uneditable: The parent table is on one line.
    """
    _refuse_inline_tables(text, keys)
    splices = []
    for each in _merged_statements(text, keys):
        start = each.start
        is_last = each.end == len(text) or text.startswith(("\n", "\r\n"), each.end)
        if is_last and (blank := re.search(r"\n(\r?\n)\Z", text[:start])):
            start = blank.start(1)  # one of the two blank lines around it stays
        splices.append(Splice(start, each.end, ""))
    return apply_splices(text, splices)


@frozen(kw_only=True)
class Statement:
    """A header or an assignment, and its lines.

    Args:
        keys: The keys of its table, followed by its own.
        table: The keys of the header above the statement; for a header, its own.
        start: The offset of its first line.
        end: The offset after its last line.
        value: The offset of its value; ``None`` for a header.
    """

    keys: Keys
    table: Keys
    start: int
    end: int
    value: int | None = None

    @property
    def is_table(self) -> bool:
        return self.value is None


def _refuse_inline_tables(text: str, keys: Keys) -> None:
    for each in statements(text):
        if not each.is_table and len(each.keys) < len(keys) and each.keys == keys[: len(each.keys)]:
            line, name = text.count("\n", 0, each.value) + 1, ".".join(map(_format_key, each.keys))
            raise Uneditable(
                f"line {line}: expected {name} as a table with a header, [{name}], got a value on one line"
            )


def _merged_statements(text: str, keys: Keys) -> Iterator[Statement]:
    """Yield the statements with these keys. Consecutive ones are merged, with the text between them."""
    run: Statement | None = None
    for each in statements(text):
        if each.keys[: len(keys)] == keys:
            run = each if run is None else evolve(run, end=each.end)
        elif run is not None:
            yield run
            run = None
    if run is not None:
        yield run


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a text, in order.

    Args:
        text: One that :func:`parse` can read.
    """
    table: Keys = ()
    offset = 0
    while (offset := _end_of_match(_SPACE, text, offset)) < len(text):
        start = text.rfind("\n", 0, offset) + 1
        header = _HEADER.match(text, offset)
        key = _KEY.match(text, header.end() if header else offset)
        if key is None:
            return  # only in a text that parse() refuses
        parts = tuple(_decode(part) for part in re.findall(_PART, key[0]))
        if header:
            table = parts
            offset = _end_of_match(_END_OF_LINE, text, key.end())
            yield Statement(keys=table, table=table, start=start, end=offset)
        else:
            value = _end_of_match(_BLANKS, text, text.index("=", key.end()) + 1)
            offset = _end_of_value(text, value)
            yield Statement(keys=(*table, *parts), table=table, start=start, end=offset, value=value)


def strings(text: str, offset: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each string in the list that begins at this offset."""
    depth = 0
    while token := _VALUE.match(text, offset):
        offset = token.end()
        depth += _depth_change(token)
        if depth == 0:
            return
        if token.lastgroup == "text":
            yield token.span()


def _end_of_match(pattern: re.Pattern[str], text: str, offset: int) -> int:
    match = pattern.match(text, offset)
    return match.end() if match else offset


def _decode(part: str) -> str:
    # tomllib knows the escapes of both kinds of quotes.
    decoded: str = tomllib.loads(f"key = {part}")["key"] if part[0] in "\"'" else part
    return decoded


def _end_of_value(text: str, offset: int) -> int:
    depth = 0
    while token := _VALUE.match(text, offset):
        offset = token.end()
        depth += _depth_change(token)
        # An array may have line breaks; outside of brackets, one ends the value.
        if token[0] == "\n" and depth == 0:
            break
    return offset


def _depth_change(token: re.Match[str]) -> int:
    """Return by how much the token changes the nesting depth: 1, 0 or -1."""
    return (token[0] in ("[", "{")) - (token[0] in ("]", "}"))


def _format_table(keys: Keys, entry: Mapping[str, Any], newline: str) -> str:
    lines = [
        f"[{'.'.join(map(_format_key, keys))}]",
        *(f"{_format_key(name)} = {_format_value(value)}" for name, value in entry.items()),
    ]
    return "".join(f"{line}{newline}" for line in lines)


def _format_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _format_value(name)


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        # json.dumps does not escape DEL here, and TOML does not allow it in a string.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        members = ", ".join(f"{_format_key(name)} = {_format_value(each)}" for name, each in value.items())
        return f"{{ {members} }}" if members else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format_value, value))}]"
    return repr(value)
