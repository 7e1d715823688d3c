"""Adds, replaces or removes one member of a JSON file, in its text.

The files may have comments and trailing commas. The new member has the style of the others: line ends, indentation, one
line or several, and a trailing comma if they have one. Everything else stays unchanged.

Source: RFC 8259; the JSON with Comments of VS Code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from mcptrio.cli.install.edits import Keys, Splice, Uneditable, Unreadable, apply_splices, indent_of, newline_of
from mcptrio.connecting.mcp_json.jsonc import JSONProblem, tokens
from mcptrio.connecting.mcp_json.jsonc import parse as parse_document

__all__ = ["parse", "put", "remove"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[ \t]*/\*[^\n]*?\*/)*(?:[ \t]*//[^\n]*)?")
"""Comments after a member on its line, which belong to it."""
_SPACE = " \t\r\n"


def parse(text: str) -> Any:
    """Return the value; an empty text is an empty object.

    Raises:
        Unreadable: The text is not JSON, apart from comments and trailing commas.
    """
    if not text.strip():
        return {}
    try:
        return parse_document(text).value
    except JSONProblem as problem:
        raise Unreadable(str(problem), problem.line, problem.column) from None


def put(text: str, keys: Keys, entry: Mapping[str, Any]) -> str:
    """Return the text with the entry under these keys, new or in place of the existing one.

    Args:
        text: One that :func:`parse` can read.

    Raises:
        Uneditable: A value on the way is not an object.
    """
    if not text.strip():
        newline = newline_of(text)
        new_text = json.dumps(_nest(keys, entry), indent=2, ensure_ascii=False)
        return text + new_text.replace("\n", newline) + newline
    document = _Document(text)
    container = document.root_object(keys)
    for number, key in enumerate(keys[:-1]):
        if key not in container.members:
            return apply_splices(text, document.insertion(container, key, _nest(keys[number + 1 :], entry)))
        container = document.inner_object(container.members[key], keys[: number + 1])
    member = container.members.get(keys[-1])
    if member is None:
        return apply_splices(text, document.insertion(container, keys[-1], entry))
    # An entry on one line stays on one line.
    is_flat = "\n" not in text[member.value : member.end]
    new_text = document.dump(entry, document.margin(member.start), flat=is_flat)
    return apply_splices(text, [Splice(member.value, member.end, new_text)])


def remove(text: str, keys: Keys) -> str:
    """Return the text without the entry under these keys, which exists.

    Raises:
        Uneditable: A value on the way is not an object.
    """
    document = _Document(text)
    container = document.root_object(keys)
    for number, key in enumerate(keys[:-1]):
        container = document.inner_object(container.members[key], keys[: number + 1])
    return apply_splices(text, document.removal(container, keys[-1]))


def _nest(keys: Keys, entry: Any) -> Any:
    for key in reversed(keys):
        entry = {key: entry}
    return entry


@frozen
class _Member:
    start: int
    """The start of the name."""
    value: int
    end: int
    """The end of the value."""
    comma: int | None


@frozen
class _Object:
    start: int
    end: int
    """``start`` and ``end`` are the offsets of the braces."""
    members: Mapping[str, _Member]


class _Document:
    """A valid text with its tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._number_at = {start: number for number, (start, _) in enumerate(self._tokens)}
        self._newline = newline_of(text)
        self._is_flat = "\n" not in text.strip()
        self._is_dense = self._is_flat and re.search(r'":\s', text) is None

    def root_object(self, keys: Keys) -> _Object:
        if self._first_char(0) != "{":
            raise Uneditable(f"expected an object with {keys[0]} in it, got {_kind_of(self._first_char(0))}")
        return self._object(0)

    def inner_object(self, member: _Member, keys: Keys) -> _Object:
        if self._text[member.value] != "{":
            raise Uneditable(f"{'.'.join(keys)}: expected an object, got {_kind_of(self._text[member.value])}")
        return self._object(self._number_at[member.value])

    def margin(self, offset: int) -> str:
        """Return the indentation of the line at this offset."""
        line = self._text[self._text.rfind("\n", 0, offset) + 1 : offset]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def dump(self, value: Any, margin: str, *, flat: bool) -> str:
        if flat:
            separators = (",", ":") if self._is_dense else (", ", ": ")
            return json.dumps(value, ensure_ascii=False, separators=separators)
        lines = json.dumps(value, indent=indent_of(self._text), ensure_ascii=False)
        return lines.replace("\n", self._newline + margin)

    def insertion(self, container: _Object, name: str, value: Any) -> list[Splice]:
        """Return the edits that add a member after the last one."""
        members = list(container.members.values())
        if not members:
            return [self._first_member(container, name, value)]
        first, last = members[0], members[-1]
        after_last = last.end if last.comma is None else last.comma + 1
        line = self._text[self._text.rfind("\n", 0, first.start) + 1 : first.start]
        splices = [Splice(last.end, last.end, ",")] if last.comma is None else []
        tail = "" if last.comma is None else ","
        if line.strip(" \t"):
            # The members are on one line.
            space = "" if self._is_dense else " "
            member = f"{space}{self._member(name, value, '', flat=True)}{tail}"
            return [*splices, Splice(after_last, after_last, member)]
        match = _REST_OF_LINE.match(self._text, after_last)
        # The pattern also matches the empty text.
        assert match is not None
        # A carriage return belongs to the line end and not to the comment.
        offset = match.end() - (1 if self._text[after_last : match.end()].endswith("\r") else 0)
        member = f"{self._newline}{line}{self._member(name, value, line, flat=False)}{tail}"
        return [*splices, Splice(offset, offset, member)]

    def removal(self, container: _Object, name: str) -> list[Splice]:
        members = list(container.members.items())
        number = next(number for number, (each, _) in enumerate(members) if each == name)
        member = members[number][1]
        end = member.end if member.comma is None else member.comma + 1
        start = len(self._text[: member.start].rstrip(_SPACE))
        rest = self._text[end:].lstrip(" \t")
        is_followed = not rest.startswith(("\n", "\r\n"))
        if is_followed and (rest.startswith('"') or self._follows_comment(start, member)):
            # The rest of this line stays on its own line.
            start, end = member.start, len(self._text) - len(rest)
        splices = [Splice(start, end, "")]
        before = members[number - 1][1] if number else None
        # Otherwise the comma before the removed last member would become a trailing comma.
        if member.comma is None and before is not None and before.comma is not None:
            splices.insert(0, Splice(before.comma, before.comma + 1, ""))
        return splices

    # Private

    def _first_member(self, container: _Object, name: str, value: Any) -> Splice:
        inner = self._text[container.start + 1 : container.end]
        comments = list(_COMMENT.finditer(inner))
        used = comments[-1].end() if comments else 0
        used -= comments != [] and comments[-1][0].endswith("\r")
        offset, margin = container.start + 1 + used, self.margin(container.start)
        # In a file on one line the new member stays on it. A file that is only `{}` gets several lines.
        if self._is_flat and self._text.strip() != self._text[container.start : container.end + 1]:
            return Splice(offset, offset, self._member(name, value, "", flat=True))
        step = indent_of(self._text)
        tail = "" if "\n" in inner[used:] else self._newline + margin
        indent = margin + step
        return Splice(offset, offset, f"{self._newline}{indent}{self._member(name, value, indent, flat=False)}{tail}")

    def _member(self, name: str, value: Any, margin: str, *, flat: bool) -> str:
        colon = ":" if flat and self._is_dense else ": "
        return f"{json.dumps(name, ensure_ascii=False)}{colon}{self.dump(value, margin, flat=flat)}"

    def _follows_comment(self, offset: int, member: _Member) -> bool:
        """Return whether a comment before this offset continues to the end of its line."""
        before = self._tokens[self._number_at[member.start] - 1][1]
        comments = list(_COMMENT.finditer(self._text, before, member.start))
        return bool(comments) and comments[-1][0].startswith("//") and comments[-1].start() < offset

    def _first_char(self, number: int) -> str:
        return self._text[self._tokens[number][0]]

    def _object(self, number: int) -> _Object:
        start = self._tokens[number][0]
        members: dict[str, _Member] = {}
        number += 1
        while self._first_char(number) != "}":
            name_start, name_end = self._tokens[number]
            value = number + 2
            number = self._end_of_value(value)
            comma = self._tokens[number][0] if self._first_char(number) == "," else None
            name = json.loads(self._text[name_start:name_end])
            members[name] = _Member(name_start, self._tokens[value][0], self._tokens[number - 1][1], comma)
            number += comma is not None
        return _Object(start, self._tokens[number][0], members)

    def _end_of_value(self, number: int) -> int:
        depth = 0
        while True:
            mark = self._first_char(number)
            depth += (mark in "{[") - (mark in "}]")
            number += 1
            if depth == 0:
                return number


def _kind_of(character: str) -> str:
    """Return the kind of the JSON value that begins with this character and is not an object."""
    return {"[": "a list", '"': "a string"}.get(character, "a number, true, false or null")
