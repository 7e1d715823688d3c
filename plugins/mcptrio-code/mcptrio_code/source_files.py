"""The source files of a folder and their changes.

A session lists them before each request, to notify its server of files that were changed, added or deleted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import IntEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from attrs import field, frozen

__all__ = ["SourceFiles", "WatchedChange", "changes_between", "list_sources"]

_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__"})
_MAX_ENTRIES_FACTOR: Final = 10
"""Folder entries of all kinds that are scanned, as a multiple of the maximum of watched files."""


class WatchedChange(IntEnum):
    """The kinds of changes, with their numbers in LSP."""

    CREATED = 1
    CHANGED = 2
    DELETED = 3


@frozen
class SourceFiles:
    """The files of a folder.

    Attributes:
        signatures: The time of the last change in nanoseconds, and the size in bytes, by path.
        truncated: True if there may be more files.
    """

    signatures: Mapping[str, tuple[int, int]] = field(factory=dict)
    truncated: bool = False


def list_sources(folder: str, globs: tuple[str, ...], *, limit: int) -> SourceFiles:
    """Return the files of a folder whose names match. Does not follow symbolic links."""
    sources: dict[str, tuple[int, int]] = {}
    remaining = limit * _MAX_ENTRIES_FACTOR
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    remaining -= 1
                    if remaining < 0 or len(sources) >= limit:
                        return SourceFiles(sources, truncated=True)
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _SKIPPED_FOLDERS and not entry.name.startswith("."):
                            waiting.append(entry.path)
                    elif any(fnmatchcase(entry.name, glob) for glob in globs) and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        sources[entry.path] = (status.st_mtime_ns, status.st_size)
        except OSError:
            continue  # deleted in the meantime, or not readable; the server cannot read it either
    return SourceFiles(sources)


def changes_between(old: SourceFiles, new: SourceFiles) -> list[dict[str, object]]:
    """Return the changes in the format of LSP. A truncated list does not show which files were deleted."""
    changes = [
        (path, WatchedChange.CHANGED if path in old.signatures else WatchedChange.CREATED)
        for path, signature in new.signatures.items()
        if old.signatures.get(path) != signature
    ]
    if not new.truncated:
        changes += [(path, WatchedChange.DELETED) for path in old.signatures if path not in new.signatures]
    return [{"uri": Path(path).as_uri(), "type": int(kind)} for path, kind in changes]
