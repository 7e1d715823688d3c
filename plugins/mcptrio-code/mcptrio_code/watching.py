"""The source files of a folder and their changes.

A session looks before each request, so that its server knows which files were changed, added or removed.
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

_SKIPPED: Final = frozenset({"node_modules", "__pycache__"})
_MAX_ENTRIES_FACTOR: Final = 10
"""Entries of all kinds that are looked at, for each watched file."""


class WatchedChange(IntEnum):
    """The kinds of changes, with the numbers of LSP."""

    CREATED = 1
    CHANGED = 2
    DELETED = 3


@frozen
class SourceFiles:
    """Files by path, with the time of the last change in nanoseconds and the size."""

    signatures: Mapping[str, tuple[int, int]] = field(factory=dict)
    truncated: bool = False


def list_sources(folder: str, globs: tuple[str, ...], *, limit: int) -> SourceFiles:
    """Return the files of a folder whose names match. Does not follow symbolic links."""
    found: dict[str, tuple[int, int]] = {}
    left = limit * _MAX_ENTRIES_FACTOR
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0 or len(found) >= limit:
                        return SourceFiles(found, truncated=True)
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _SKIPPED and not entry.name.startswith("."):
                            waiting.append(entry.path)
                    elif any(fnmatchcase(entry.name, glob) for glob in globs) and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        found[entry.path] = (status.st_mtime_ns, status.st_size)
        except OSError:
            continue  # removed meanwhile, or not readable: the server cannot read it either
    return SourceFiles(found)


def changes_between(old: SourceFiles, new: SourceFiles) -> list[dict[str, object]]:
    """Return the changes in the form of LSP. A truncated list does not tell which files are missing."""
    changes = [
        (path, WatchedChange.CHANGED if path in old.signatures else WatchedChange.CREATED)
        for path, signature in new.signatures.items()
        if old.signatures.get(path) != signature
    ]
    if not new.truncated:
        changes += [(path, WatchedChange.DELETED) for path in old.signatures if path not in new.signatures]
    return [{"uri": Path(path).as_uri(), "type": int(kind)} for path, kind in changes]
