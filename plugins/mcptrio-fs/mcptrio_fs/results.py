"""The results of the tools: structured values for programs, and texts for models.

Contents of files and trees are text only. Lists and metadata are structured, and their text is made from the structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from .errors import printable
from .listing import DirectoryEntry, format_size
from .reading import Text

__all__ = [
    "Details",
    "DirectoryListing",
    "Found",
    "ListedEntry",
    "SizedListing",
    "details_text",
    "found_text",
    "listing_text",
    "part_text",
    "sizes_text",
    "with_notes",
]

_MAX_NOTES_CHARS = 2_000
"""Maximum number of characters of the notes after a text."""


class ListedEntry(Struct, frozen=True, kw_only=True):
    """One name in a directory."""

    name: str
    type: Literal["file", "directory"]
    size: int | UnsetType = UNSET
    """Bytes of a file."""

    @classmethod
    def of(cls, entry: DirectoryEntry) -> ListedEntry:
        kind: Literal["file", "directory"] = "directory" if entry.is_directory else "file"
        return cls(name=printable(entry.name), type=kind, size=UNSET if entry.is_directory else entry.size)

    @property
    def line(self) -> str:
        """The line of a listing for this entry."""
        slash = "/" if self.type == "directory" else ""
        return f"{'' if self.size is UNSET else format_size(self.size):>9} {self.name}{slash}"


class DirectoryListing(Struct, frozen=True, kw_only=True):
    """A page of a directory."""

    entries: list[str]
    """Names; those of directories end with a slash."""

    offset: int
    total: int
    """Entries of the directory."""

    next_offset: int | UnsetType = UNSET
    """The ``offset`` of the next page."""


class SizedListing(Struct, frozen=True, kw_only=True):
    """A page of a directory with the sizes of its files."""

    entries: list[ListedEntry]
    offset: int
    total: int
    """Entries of the directory."""

    bytes: int
    """Bytes of all files of the directory."""

    next_offset: int | UnsetType = UNSET
    """The ``offset`` of the next page."""


class Found(Struct, frozen=True, kw_only=True):
    """A page of a search."""

    paths: list[str]
    notes: list[str]
    next_cursor: str | UnsetType = UNSET
    """The ``cursor`` of the next page."""


class Details(Struct, frozen=True, kw_only=True):
    """The metadata of a file or directory. Times are ISO 8601."""

    type: Literal["file", "directory", "other"]
    size: int
    created: str | UnsetType = UNSET
    """Missing if the file system does not keep it."""

    modified: str
    accessed: str
    permissions: str


def with_notes(text: str, notes: Sequence[str]) -> str:
    """Return a text followed by a line for each note."""
    if not notes:
        return text
    note_lines = "\n".join(f"[{note}]" for note in notes)
    if len(note_lines) > _MAX_NOTES_CHARS:
        note_lines = f"{note_lines[:_MAX_NOTES_CHARS]}…]"
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{note_lines}"


def part_text(part: Text, *, from_end: bool = False) -> str:
    """Return a part of a file, followed by a note on how to read the rest.

    Args:
        from_end: The part is the end of the file, so the omitted part precedes it.
    """
    notes: list[str] = []
    if part.cut:
        note = f"bytes {part.start} to {part.end} of {part.size}"
        notes.append(note if from_end else f"{note}; continue with offset={part.end}")
    if part.replaced:
        notes.append("some bytes are not UTF-8; U+FFFD stands for them")
    return with_notes(part.text, notes)


def listing_text(listing: DirectoryListing) -> str:
    """Return a line for each name."""
    return with_notes("\n".join(listing.entries) or "empty", _continuation_notes(listing))


def sizes_text(listing: SizedListing) -> str:
    """Return a line for each name with its size, then the totals."""
    lines = [entry.line for entry in listing.entries]
    lines.append(f"{format_size(listing.bytes):>9} in {listing.total} entries")
    return with_notes("\n".join(lines), _continuation_notes(listing))


def found_text(result: Found) -> str:
    """Return a line for each path."""
    return with_notes("\n".join(result.paths), result.notes)


def details_text(details: Details) -> str:
    """Return a line for each value."""
    values = ((name, getattr(details, name)) for name in details.__struct_fields__)
    return "\n".join(f"{name}: {'unknown' if value is UNSET else value}" for name, value in values)


def _continuation_notes(listing: DirectoryListing | SizedListing) -> list[str]:
    if listing.next_offset is UNSET:
        return []
    range_text = f"entries {listing.offset} to {listing.next_offset} of {listing.total}"
    return [f"{range_text}; continue with offset={listing.next_offset}"]
