"""Finds a symbol in a document by its name.

The tools use it. Models know the names and lines of symbols but miscount columns, so the tools have no parameter for
columns. Positions are in the units of the server.

Source: LSP 3.17, "SymbolKind".
"""

from __future__ import annotations

import re
from typing import Any, Final

from attrs import frozen

from mcptrio import ToolError

from .messages import DocumentSymbol, SymbolInformation, TextPosition, read_result
from .positions import units_before
from .session import LanguageSession, OpenDocument

__all__ = ["KINDS", "SourceSymbol", "positions_of", "symbols_of"]

KINDS: Final = (
    "", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
    "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null",
    "enum member", "struct", "event", "operator", "type parameter",
)  # fmt: skip
"""The names of the kinds, at the index that LSP assigns to the kind."""

_NEARBY_LINES: Final = 3
"""Lines before and after the given line that are searched, too."""
_MAX_OCCURRENCES: Final = 20
_MAX_LISTED: Final = 10
_SEPARATORS: Final = re.compile(r"\.|::|#")


@frozen
class SourceSymbol:
    """A symbol of a document. Line numbers start at 0."""

    names: tuple[str, ...]
    """The names of the outer symbols, from the outside in, and the symbol's own name."""
    kind: str
    outer_kinds: tuple[str, ...]
    line: int
    end_line: int
    position: TextPosition


async def symbols_of(session: LanguageSession, document: OpenDocument) -> list[SourceSymbol]:
    """Return the symbols of a document in the order of its text.

    Raises:
        RequestRefused: The server refuses, or takes too long.
        ServerEnded: The server exits.
    """
    result: Any = await session.request("textDocument/documentSymbol", {"textDocument": {"uri": document.uri}})
    if isinstance(result, list) and result and isinstance(result[0], dict) and "location" in result[0]:
        flat = [_symbol(each.name, each.kind, each.location.range, each.location.range.start, None)
                for each in read_result(result, list[SymbolInformation])]  # fmt: skip
        return sorted(flat, key=lambda each: each.line)
    symbols: list[SourceSymbol] = []
    waiting: list[tuple[DocumentSymbol, SourceSymbol | None]] = [
        (each, None) for each in read_result(result or [], list[DocumentSymbol])
    ]
    while waiting:
        each, outer = waiting.pop()
        symbol = _symbol(each.name, each.kind, each.range, each.selection_range.start, outer)
        symbols.append(symbol)
        waiting += [(child, symbol) for child in each.children or ()]
    return sorted(symbols, key=lambda each: (each.line, -each.end_line))


async def positions_of(
    session: LanguageSession, document: OpenDocument, symbol: str, line: int, *, shown: str
) -> list[TextPosition]:
    """Return the positions of a symbol for requests to the server, the best first.

    Args:
        symbol: The name, with the names of outer symbols if needed, such as ``Class.method``.
        line: A line on which the symbol occurs; 0 for any line.
        shown: The name of the file in messages.

    Raises:
        ToolError: The name does not occur there, or several symbols have it.
        RequestRefused: The server refuses, or takes too long.
        ServerEnded: The server exits.
    """
    names = [name for name in _SEPARATORS.split(symbol.strip()) if name]
    if not names:
        raise ToolError(f"symbol: expected a name, got {symbol[:100]!r}")
    if not line:
        matches = [each for each in await symbols_of(session, document) if each.names[-len(names) :] == tuple(names)]
        if len({each.names for each in matches}) > 1:
            listed = ", ".join(f"{'.'.join(each.names)} (line {each.line + 1})" for each in matches[:_MAX_LISTED])
            raise ToolError(
                f"symbol: {symbol!r} has several definitions in {shown}: {listed}; pass one of them, or line"
            )
        if matches:
            return [matches[0].position]
        if len(names) > 1:
            raise ToolError(f"symbol: {shown} does not define {symbol!r}; pass {names[-1]!r} and the line of its use")
    occurrences = _occurrences(document, names[-1], session.encoding)
    if not occurrences:
        raise ToolError(f"symbol: {names[-1]!r} does not occur in {shown}")
    if not line:
        return occurrences[:_MAX_OCCURRENCES]
    near = [each for each in occurrences if abs(each.line + 1 - line) <= _NEARBY_LINES]
    if not near:
        lines = ", ".join(
            str(number) for number in list(dict.fromkeys(each.line + 1 for each in occurrences))[:_MAX_LISTED]
        )
        raise ToolError(f"line: {names[-1]!r} does not occur at line {line} of {shown}; it occurs at lines {lines}")
    nearest = min(abs(each.line + 1 - line) for each in near)
    return [each for each in near if abs(each.line + 1 - line) == nearest][:_MAX_OCCURRENCES]


def _symbol(name: str, kind: int, range: Any, position: TextPosition, outer: SourceSymbol | None) -> SourceSymbol:
    return SourceSymbol(
        names=(*(outer.names if outer else ()), name),
        kind=KINDS[kind] if 0 < kind < len(KINDS) else "symbol",
        outer_kinds=(*outer.outer_kinds, outer.kind) if outer else (),
        line=range.start.line,
        end_line=range.end.line,
        position=position,
    )


def _occurrences(document: OpenDocument, name: str, encoding: str) -> list[TextPosition]:
    word = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    return [
        TextPosition(number, units_before(line, match.start(), encoding))
        for number, line in enumerate(document.lines)
        if name in line
        for match in word.finditer(line)
    ]
