"""Searches the text files below a directory, or one file, for lines that match a pattern.

The tool ``grep`` calls it in a worker thread, one slice at a time. Between slices it keeps names and no descriptors.
The files are in the order of their paths, so a cursor is a path and a line number.

ripgrep would be faster, but it opens files by their names. If a link replaced a directory, ripgrep would leave the
allowed folders.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from urllib.parse import quote, unquote_to_bytes

from attrs import define, field

from mcptrio.errors import ToolError

from .errors import printable
from .line_pattern import LinePattern
from .media import binary_type
from .no_follow import open_for_traversal, open_regular_in
from .patterns import GlobPattern
from .reading import Checkpoint, read_at
from .sandbox import Sandbox
from .search import Search
from .sizes import wire_size

__all__ = ["ContentSearch"]

_BATCH_FILES = 500
"""Number of files whose names are collected before they are read."""
_EXAMINED_BYTES = 8 * 1024
"""Bytes at the beginning of a file that decide whether it is text."""
_MAX_LINE_CHARS = 300
"""Maximum number of characters of a line that are shown, around the match."""
_MAX_CHARS_BEFORE_MATCH = 100
"""Maximum number of shown characters before the match."""


@define
class ContentSearch:
    """Matching lines, grouped by file."""

    sandbox: Sandbox
    start: str
    """The directory or file, absolute, as typed."""

    shown: str
    """``start`` as the answer shows it."""

    pattern: LinePattern
    included: Sequence[GlobPattern]
    excluded: Sequence[GlobPattern]
    context: int
    limit: int
    """Maximum number of matching lines."""

    max_visited: int
    max_file_bytes: int
    max_bytes: int
    """Maximum bytes of the result as JSON."""

    cursor: str = ""
    max_seconds: float = 20.0
    """Seconds of one call with all its slices. The cursor continues after them."""

    lines: list[str] = field(init=False, factory=list)
    """The lines of the result: the path of each file, followed by its matches."""

    found: int = field(init=False, default=0)
    """Number of matching lines in the result."""

    searched: int = field(init=False, default=0)
    """Number of files that were read."""

    large: int = field(init=False, default=0)
    """Number of files that are too large to be searched."""

    unreadable: int = field(init=False, default=0)
    """Number of files and directories that could not be read."""

    next_cursor: str | None = field(init=False, default=None)
    visited: int = field(init=False, default=0)
    _deadline: float = field(init=False, default=0.0)
    _real_start: str = field(init=False, default="")
    _walk: Search | None = field(init=False, default=None)
    _files: deque[tuple[tuple[str, ...], int]] = field(init=False, factory=deque)
    """Files to read, each with the index of the line to begin at."""

    _directory: tuple[str, int] | None = field(init=False, default=None)
    """The directory of the file that was read last, and its descriptor."""

    _bytes: int = field(init=False, default=0)

    def advance(self, seconds: float, checkpoint: Checkpoint) -> bool:
        """Search for about ``seconds``. Return True if the search must be continued.

        Raises:
            ToolError: The start does not exist or may not be read, the cursor is invalid, or the expression takes too
                long.
        """
        until = time.monotonic() + seconds
        if not self._real_start:
            self._begin()
        try:
            return self._run_until(until, checkpoint)
        finally:
            self._close_directory()

    def _run_until(self, until: float, checkpoint: Checkpoint) -> bool:
        while self.next_cursor is None:
            if self._files:
                parts, first = self._files.popleft()
                if time.monotonic() > self._deadline:
                    self.next_cursor = _format_cursor(parts, first)
                else:
                    self._search(parts, first, checkpoint)
            elif self._walk is None:
                return False
            else:
                self._collect_files(self._walk, checkpoint, until)
            if time.monotonic() > until:
                return self.next_cursor is None
        return False

    @property
    def notes(self) -> list[str]:
        """Notes for the reader: the cursor of the next page, and the number of files that were not searched."""
        notes = []
        if self.next_cursor is not None:
            notes.append(f"{self.searched} files searched; continue with cursor={self.next_cursor}")
        elif not self.found:
            notes.append(f"no {'more ' if self.cursor else ''}matches in {self.searched} files")
        if self.large:
            notes.append(f"files larger than {self.max_file_bytes} bytes, which were not searched: {self.large}")
        if self.unreadable:
            notes.append(f"files and directories that could not be read: {self.unreadable}")
        return notes

    def _begin(self) -> None:
        self._deadline = time.monotonic() + self.max_seconds
        status, location = self.sandbox.status(self.start)
        self._real_start = location.real
        after, first = _parse_cursor(self.cursor)
        # A cursor comes from the client, and the file that it names is opened without another check.
        if self.sandbox.is_denied(list(after)) or (after and not stat.S_ISDIR(status.st_mode)):
            raise _bad_cursor(self.cursor)
        if not stat.S_ISDIR(status.st_mode):
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(f"expected a file or directory, got something else: {printable(self.shown)}")
            self._files.append(((), first))
            return
        if first >= 0 and after:
            self._files.append((after, first))
        self._walk = self._search_after(after)

    def _search_after(self, after: tuple[str, ...]) -> Search:
        return Search(
            sandbox=self.sandbox,
            start=self.start,
            patterns=self.included,
            excluded=self.excluded,
            limit=_BATCH_FILES,
            max_visited=self.max_visited - self.visited,
            after=after,
            files_only=True,
        )

    def _collect_files(self, walk: Search, checkpoint: Checkpoint, until: float) -> None:
        """Advance the walk. When it has ended, queue the files that it has found."""
        if walk.advance(max(0.0, until - time.monotonic()), checkpoint):
            return
        self.visited += walk.visited
        self.unreadable += walk.skipped
        skip = len(self.start.rstrip("/")) + 1
        self._files.extend((tuple(path[skip:].split("/")), 0) for path in walk.found)
        self._walk = None
        if walk.resume_after is None:
            return
        after = tuple(walk.resume_after.split("/"))
        if self.visited < self.max_visited:
            self._walk = self._search_after(after)
        elif self._files:
            self._files.append((after, -1))
        else:
            self.next_cursor = _format_cursor(after, -1)

    def _search(self, parts: tuple[str, ...], first: int, checkpoint: Checkpoint) -> None:
        if first < 0:
            self.next_cursor = _format_cursor(parts, first)
            return
        data = self._read("/".join((self._real_start, *parts)), checkpoint)
        if self.pattern.needed not in data:
            return
        text = data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
        name = printable(os.path.normpath(os.path.join(self.shown, *parts)))
        matches = self.pattern.matches(text, first, name, checkpoint)
        # One match more than the limit shows that there are more.
        hits = list(islice(matches, self.limit - self.found + 1))
        if hits:
            self._show(parts, name, text.split("\n"), hits)

    def _read(self, path: str, checkpoint: Checkpoint) -> bytes:
        """Return the bytes of a text file; empty if the file is binary, too large, or cannot be read."""
        above, _, name = path.rpartition("/")
        try:
            descriptor = open_regular_in(self._open_directory(above), name, path)
        except (OSError, ToolError):
            self.unreadable += 1
            return b""
        try:
            head = os.pread(descriptor, _EXAMINED_BYTES, 0)
            if binary_type(name, head) is not None:
                return b""
            if os.fstat(descriptor).st_size > self.max_file_bytes:
                self.large += 1
                return b""
            self.searched += 1
            return head if len(head) < _EXAMINED_BYTES else read_at(descriptor, 0, self.max_file_bytes, checkpoint)
        except OSError:
            self.unreadable += 1
            return b""
        finally:
            os.close(descriptor)

    def _open_directory(self, path: str) -> int:
        """Return the descriptor of a directory. It stays open for the next file until the end of the slice."""
        if self._directory is None or self._directory[0] != path:
            self._close_directory()
            self._directory = path, open_for_traversal(path)
        return self._directory[1]

    def _close_directory(self) -> None:
        if self._directory is not None:
            os.close(self._directory[1])
            self._directory = None

    def _show(self, parts: tuple[str, ...], name: str, lines: list[str], hits: list[tuple[int, int]]) -> None:
        end = 0
        for index, (number, at) in enumerate(hits):
            begin = max(end, number - self.context)
            following = hits[index + 1][0] if index + 1 < len(hits) else len(lines)
            stop = min(number + self.context + 1, following, len(lines))
            block = [] if index else [name]
            if self.context and index and begin > end:
                block.append("--")
            block += [f"{each + 1}-{_shorten(lines[each], 0)}" for each in range(begin, number)]
            block.append(f"{number + 1}:{_shorten(lines[number], at)}")
            block += [f"{each + 1}-{_shorten(lines[each], 0)}" for each in range(number + 1, stop)]
            size = wire_size("\n".join(block)) + 2
            if self.found and (self.found >= self.limit or self._bytes + size > self.max_bytes):
                self.next_cursor = _format_cursor(parts, number)
                return
            self.lines += block
            self._bytes += size
            self.found += 1
            end = stop


def _shorten(line: str, at: int) -> str:
    if len(line) <= _MAX_LINE_CHARS:
        return line
    begin = max(0, at - _MAX_CHARS_BEFORE_MATCH)
    end = begin + _MAX_LINE_CHARS
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


def _format_cursor(parts: tuple[str, ...], first: int) -> str:
    """Return the cursor of a line in a file; the line -1 is the end of the file."""
    return f"{first}:{quote(os.fsencode('/'.join(parts)))}"


def _parse_cursor(cursor: str) -> tuple[tuple[str, ...], int]:
    if not cursor:
        return (), 0
    number, colon, path = cursor.partition(":")
    names = os.fsdecode(unquote_to_bytes(path)).split("/") if path else []
    is_number = number.removeprefix("-").isdecimal() and len(number) < 10
    if not colon or not is_number or any(name in ("", ".", "..") or "\0" in name for name in names):
        raise _bad_cursor(cursor)
    return tuple(names), int(number)


def _bad_cursor(cursor: str) -> ToolError:
    return ToolError(f"expected the cursor of a previous answer, got {printable(cursor, 100)!r}")
