"""A JSON parser for ``mcp.json`` that accepts comments and trailing commas and records the line of each member.

Everything else is strict JSON (RFC 8259): no single quotes, no unquoted names, no other numbers.

Source: RFC 8259; the JSON with Comments of VS Code (jsonc-parser, ``allowTrailingComma``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import orjson
from attrs import field, frozen

__all__ = ["MAX_DEPTH", "JSONCDocument", "JSONProblem", "Path", "parse", "tokens"]

MAX_DEPTH = 64
"""Levels of arrays and objects, because the parser recurses. Few configuration files have more than eight."""

Path: TypeAlias = tuple[str | int, ...]
"""Location of a value: ``("servers", "fs", "args", 0)``."""

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n]+|//[^\n]*|/\*.*?\*/)
    | (?P<text>"(?:[^"\\\x00-\x1f]|\\.)*")
    | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.]))
    | (?P<word>(?:true|false|null)\b)
    | (?P<mark>[{}\[\],:])
    """,
    re.VERBOSE | re.DOTALL,
)
_END = "end"


class JSONProblem(ValueError):
    """The text is not valid. The message states what was expected and found, without values.

    Attributes:
        line: Line number, from 1.
        column: Column number, from 1.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@frozen
class JSONCDocument:
    """A parsed text.

    Args:
        value: The same value as ``json.loads`` would return.
    """

    value: Any
    _text: str = field(repr=False)
    _places: Mapping[Path, int] = field(repr=False)

    def line_of(self, path: Path) -> int:
        """Return the line of a value or its name; for a missing path, the line of its nearest parent."""
        while path and path not in self._places:
            path = path[:-1]
        return self._text.count("\n", 0, self._places.get(path, 0)) + 1


def parse(text: str) -> JSONCDocument:
    """Parse a text, in time linear in its length.

    Raises:
        JSONProblem: The text is not JSON, is nested too deeply, or has a duplicate name.
    """
    return _Parser(text).parse()


def tokens(text: str) -> Iterator[tuple[int, int]]:
    """Iterate over the spans of the tokens in a text that :func:`parse` accepts, without white space and comments."""
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "space":
            yield match.span()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._kind = ""
        self._start = self._end = 0
        self._places: dict[Path, int] = {}

    def parse(self) -> JSONCDocument:
        self._next()
        value = self._value(())
        if self._kind != _END:
            raise self._problem("the end of the file")
        return JSONCDocument(value, self._text, self._places)

    def _value(self, path: Path) -> Any:
        # A member was already recorded at the line of its name.
        self._places.setdefault(path, self._start)
        if self._kind in ("text", "number", "word"):
            value = self._scalar()
            self._next()
            return value
        if self._is("{"):
            return self._object(path)
        if self._is("["):
            return self._array(path)
        raise self._problem("a value")

    def _object(self, path: Path) -> dict[str, Any]:
        self._open(path)
        members: dict[str, Any] = {}
        while not self._is("}"):
            if self._kind != "text":
                raise self._problem("a name in quotation marks or '}'")
            name = self._scalar()
            # JSON readers differ in which of two equal names counts, so the host and mcptrio could run different
            # servers.
            if name in members:
                raise JSONProblem("expected each name once, got one twice", *self._where())
            self._places[(*path, name)] = self._start
            self._next()
            self._expect(":")
            members[name] = self._value((*path, name))
            if not self._is("}"):
                self._expect(",", "',' or '}'")
        self._next()
        return members

    def _array(self, path: Path) -> list[Any]:
        self._open(path)
        items: list[Any] = []
        while not self._is("]"):
            items.append(self._value((*path, len(items))))
            if not self._is("]"):
                self._expect(",", "',' or ']'")
        self._next()
        return items

    def _open(self, path: Path) -> None:
        if len(path) >= MAX_DEPTH:
            raise JSONProblem(f"expected at most {MAX_DEPTH} levels", *self._where())
        self._next()

    def _scalar(self) -> Any:
        try:
            # One token at a time, so orjson decodes escapes and numbers as it would in plain JSON.
            return orjson.loads(self._text[self._start : self._end])
        except orjson.JSONDecodeError:  # an invalid escape, or a lone surrogate
            raise JSONProblem(f"expected {_KINDS[self._kind]}, got invalid JSON", *self._where()) from None

    def _is(self, mark: str) -> bool:
        return self._kind == "mark" and self._text[self._start] == mark

    def _expect(self, mark: str, expected: str = "") -> None:
        if not self._is(mark):
            raise self._problem(expected or f"'{mark}'")
        self._next()

    def _next(self) -> None:
        while True:
            self._start = self._end
            match = _TOKEN.match(self._text, self._start)
            if match is None:
                break
            self._end = match.end()
            self._kind = match.lastgroup or ""
            if self._kind != "space":
                return
        if self._start < len(self._text):
            self._kind = ""
            raise self._problem("JSON")
        self._kind = _END

    def _problem(self, expected: str) -> JSONProblem:
        if self._kind == _END:
            got = "the end of the file"
        elif self._kind == "mark":
            got = f"'{self._text[self._start]}'"
        elif self._kind:
            got = _KINDS[self._kind]
        else:
            got = _describe_invalid(self._text[self._start])
        return JSONProblem(f"expected {expected}, got {got}", *self._where())

    def _where(self) -> tuple[int, int]:
        """Return line and column, both from 1."""
        line = self._text.count("\n", 0, self._start) + 1
        return line, self._start - self._text.rfind("\n", 0, self._start)


_KINDS = {"text": "a string", "number": "a number", "word": "true, false or null"}


def _describe_invalid(character: str) -> str:
    # Only the kind is reported: the character may be the first one of a secret.
    if character == '"':
        return "a string that does not end on its line"
    if character == "/":
        return "'/', or a comment that does not end"
    if character == "'":
        return "a single quotation mark"
    return "a name without quotation marks" if character.isalpha() else "something else"
