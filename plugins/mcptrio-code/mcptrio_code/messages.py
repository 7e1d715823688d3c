"""The parts of LSP results that the plugin reads, and their validation.

The tools and sessions use them. Results are validated, because they come from another program.

Source: LSP 3.17.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from .connection import RequestRefused

__all__ = [
    "Diagnostic",
    "DocumentSymbol",
    "Location",
    "LocationLink",
    "SymbolInformation",
    "TextEdit",
    "TextPosition",
    "TextRange",
    "locations_of",
    "read_result",
]

_MAX_ITEMS: Final = 100_000

_T = TypeVar("_T")


class TextPosition(Struct, frozen=True):
    """A position in a text. Both numbers start at 0."""

    line: int
    character: int


class TextRange(Struct, frozen=True):
    """The text between two positions."""

    start: TextPosition
    end: TextPosition


class Location(Struct, frozen=True):
    """A range in a file."""

    uri: str
    range: TextRange


class LocationLink(Struct, frozen=True, rename="camel"):
    """A location in the newer format."""

    target_uri: str
    target_selection_range: TextRange


class DocumentSymbol(Struct, frozen=True, rename="camel"):
    """A symbol of a file, with its inner symbols."""

    name: str
    kind: int
    range: TextRange
    selection_range: TextRange
    children: list[DocumentSymbol] | None = None


class SymbolInformation(Struct, frozen=True):
    """A symbol of the workspace, or of a file in the older format."""

    name: str
    kind: int
    location: Location


class TextEdit(Struct, frozen=True, rename="camel"):
    """A replacement of a range."""

    range: TextRange
    new_text: str


class Diagnostic(Struct, frozen=True):
    """An error or warning in a file."""

    range: TextRange
    message: str
    severity: int = 1
    code: int | str | None = None


def read_result(value: Any, type: type[_T]) -> _T:
    """Validate a result and convert it to a type.

    Raises:
        RequestRefused: The result does not have this type, or has too many items.
    """
    if isinstance(value, list) and len(value) > _MAX_ITEMS:
        raise RequestRefused(f"the language server answered with {len(value)} items; at most {_MAX_ITEMS} are read")
    try:
        return msgspec.convert(value, type, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RequestRefused(f"the language server answered in a form that LSP does not have: {error}") from None


def locations_of(value: Any) -> list[Location]:
    """Return the locations of a result in any of the formats that LSP allows.

    Raises:
        RequestRefused: The result has another format.
    """
    items = value if isinstance(value, list) else [] if value is None else [value]
    if items and isinstance(items[0], dict) and "targetUri" in items[0]:
        return [
            Location(each.target_uri, each.target_selection_range) for each in read_result(items, list[LocationLink])
        ]
    return read_result(items, list[Location])
