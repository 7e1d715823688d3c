"""Searches the entries below a directory for relative paths that match a pattern.

The search tools call it in a worker thread, one slice at a time. Between slices it keeps names and no descriptors, so
an abandoned thread has nothing to release. The results are in the order of their relative paths, component by
component, so a search can continue after any relative path, even if files were added or removed.

Source: matches, exclusions and results are those of the reference filesystem server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from attrs import define, field

from .errors import AccessDenied, printable
from .listing import ENTRIES_PER_CHECK, DirectoryEntry, list_below, scan_start
from .patterns import GlobPattern
from .reading import Checkpoint
from .sandbox import Sandbox
from .sizes import wire_size

__all__ = ["MAX_DEPTH", "Search"]

MAX_DEPTH = 200
"""Maximum number of levels below the start of a search."""


@define
class Search:
    """A walk through a directory and all directories below, which collects the paths that match."""

    sandbox: Sandbox
    start: str
    """The directory, absolute, as typed."""

    patterns: Sequence[GlobPattern]
    """Patterns of which one must match. If empty, every path matches."""

    excluded: Sequence[GlobPattern]
    limit: int
    max_visited: int
    max_bytes: int = 2**53 - 1
    """Maximum size of the results as JSON."""
    after: tuple[str, ...] = ()
    """Continue after this relative path."""

    files_only: bool = False
    """Leave out directories and symbolic links."""

    found: list[str] = field(init=False, factory=list)
    """Absolute paths that begin with ``start``."""

    visited: int = field(init=False, default=0)
    resume_after: str | None = field(init=False, default=None)
    """The relative path after which the next call continues, if the walk has ended at a limit."""

    skipped: int = field(init=False, default=0)
    """Number of directories that could not be listed."""

    _real: str = field(init=False, default="")
    _stack: list[tuple[tuple[str, ...], Iterator[DirectoryEntry]]] = field(init=False, factory=list)
    _last: str = field(init=False, default="")
    _bytes: int = field(init=False, default=0)

    def advance(self, seconds: float, checkpoint: Checkpoint) -> bool:
        """Continue the walk for about ``seconds``. Return True if it must be continued.

        Raises:
            ToolError: The start is not a directory, or may not be listed.
        """
        until = time.monotonic() + seconds
        if not self._real:
            self._begin(checkpoint)
        while self._stack:
            above, entries = self._stack[-1]
            for entry in entries:
                self.visited += 1
                if self.visited % ENTRIES_PER_CHECK == 0:
                    checkpoint()
                parts = (*above, entry.name)
                deeper = self._visit(parts, entry, checkpoint)
                if self.resume_after is not None:
                    self._stack.clear()
                    return False
                if deeper is not None:
                    self._stack.append((parts, deeper))
                    break
                if self.visited % ENTRIES_PER_CHECK == 0 and time.monotonic() > until:
                    return True
            else:
                self._stack.pop()
            if time.monotonic() > until:
                return bool(self._stack)
        return False

    def _begin(self, checkpoint: Checkpoint) -> None:
        entries, self._real = scan_start(self.sandbox, self.start, checkpoint=checkpoint)
        self._stack.append(((), self._from_cursor(entries, ())))

    def _visit(
        self, parts: tuple[str, ...], entry: DirectoryEntry, checkpoint: Checkpoint
    ) -> Iterator[DirectoryEntry] | None:
        """Add an entry if it matches. Return the entries of a directory in which the walk continues."""
        if any(pattern.matches(parts) for pattern in self.excluded):
            return None
        if parts > self.after:
            if self._matches(parts, entry) and self._is_allowed(parts, entry):
                self.found.append(os.path.join(self.start, *parts))
                self._bytes += wire_size(printable(self.found[-1])) + 2
                # One path more than the limit shows that there are more. The first path is always kept.
                if len(self.found) > self.limit or (self._bytes > self.max_bytes and len(self.found) > 1):
                    self.found.pop()
                    self.resume_after = self._last
                    return None
            if self.visited >= self.max_visited:
                self.resume_after = "/".join(parts)
                return None
            self._last = "/".join(parts)
        if not entry.is_directory or len(parts) > MAX_DEPTH:
            return None
        return self._from_cursor(self._list(parts, checkpoint), parts)

    def _matches(self, parts: tuple[str, ...], entry: DirectoryEntry) -> bool:
        if self.files_only and (entry.is_directory or entry.is_link):
            return False
        return not self.patterns or any(pattern.matches(parts) for pattern in self.patterns)

    def _from_cursor(self, entries: list[DirectoryEntry], above: tuple[str, ...]) -> Iterator[DirectoryEntry]:
        """Return the entries without those before ``after``, so that the walk does not enter them."""
        depth = len(above)
        if depth < len(self.after) and above == self.after[:depth]:
            first = self.after[depth]
            return iter([entry for entry in entries if entry.name >= first])
        return iter(entries)

    def _is_allowed(self, parts: tuple[str, ...], entry: DirectoryEntry) -> bool:
        if not entry.is_link:
            return True
        try:
            self.sandbox.locate(os.path.join(self.start, *parts))
        except AccessDenied:
            return False
        return True

    def _list(self, parts: tuple[str, ...], checkpoint: Checkpoint) -> list[DirectoryEntry]:
        entries = list_below(self._real, parts, self.sandbox, checkpoint)
        if entries is not None:
            return entries
        self.skipped += 1
        return []
