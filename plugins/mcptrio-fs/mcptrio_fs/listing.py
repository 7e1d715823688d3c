"""Lists a directory in order of name.

The listing tools call it in a worker thread, and searches and trees call it for each directory. A symbolic link is only
an entry; its target is never read.

Source: the form of the output is that of the reference filesystem server.
"""

from __future__ import annotations

import os
import stat
from operator import attrgetter

from msgspec import Struct

from mcptrio.errors import ToolError

from .errors import explain, printable
from .no_follow import open_listing
from .reading import Checkpoint
from .sandbox import Sandbox

__all__ = [
    "ENTRIES_PER_CHECK",
    "MAX_DIRECTORY_ENTRIES",
    "DirectoryEntry",
    "DirectoryPage",
    "format_size",
    "list_below",
    "list_entries",
    "scan",
    "scan_start",
]

MAX_DIRECTORY_ENTRIES = 500_000
"""Maximum number of entries in a directory. They are held in memory, about 100 bytes each; more are refused."""

ENTRIES_PER_CHECK = 256
"""Entries between two checks for a cancellation."""


class DirectoryEntry(Struct, frozen=True):
    """One name in a directory."""

    name: str
    is_directory: bool
    is_link: bool = False
    size: int = 0
    """Bytes; 0 for directories, or if sizes were not requested."""


class DirectoryPage(Struct, kw_only=True, frozen=True):
    """A page of a directory."""

    entries: tuple[DirectoryEntry, ...]
    total: int
    size: int
    """Bytes of all files in the directory, including those on other pages; 0 unless sizes were requested."""


def list_entries(
    sandbox: Sandbox,
    path: str,
    *,
    offset: int,
    limit: int,
    sizes: bool,
    largest_first: bool,
    checkpoint: Checkpoint,
) -> DirectoryPage:
    """Return a page of the entries of a directory, in order of name, or of size with the largest first.

    Raises:
        ToolError: The directory does not exist, or it has more than ``MAX_DIRECTORY_ENTRIES`` entries.
    """
    entries, _ = scan_start(sandbox, path, sizes=sizes, checkpoint=checkpoint)
    if largest_first:
        entries.sort(key=lambda entry: (-entry.size, entry.name))
    size = sum(entry.size for entry in entries) if sizes else 0
    return DirectoryPage(entries=tuple(entries[offset : offset + limit]), total=len(entries), size=size)


def format_size(size: int) -> str:
    """Return a size for people, in units of 1024: ``512 B``, ``1.50 KB``."""
    if size < 1024:
        return f"{max(size, 0)} B"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.2f} {('B', 'KB', 'MB', 'GB', 'TB')[power]}"


def scan_start(
    sandbox: Sandbox, path: str, *, sizes: bool = False, checkpoint: Checkpoint
) -> tuple[list[DirectoryEntry], str]:
    """Return the entries of the directory at which a walk starts, and its resolved path.

    Raises:
        ToolError: As ``list_entries``.
    """
    with sandbox.open_directory(path) as (descriptor, location):
        try:
            return scan(descriptor, sandbox, sizes, path, checkpoint), location.real
        except OSError as error:
            raise explain(error, path) from error


def list_below(
    real: str, parts: tuple[str, ...], sandbox: Sandbox, checkpoint: Checkpoint
) -> list[DirectoryEntry] | None:
    """Return the entries of a directory that a walk has found; None if it was removed or replaced, is unreadable, or is
    too large."""
    path = os.path.join(real, *parts)
    try:
        descriptor = open_listing(path)
    except OSError:
        return None
    try:
        return scan(descriptor, sandbox, False, path, checkpoint)
    except (OSError, ToolError):
        return None
    finally:
        os.close(descriptor)


def scan(descriptor: int, sandbox: Sandbox, sizes: bool, path: str, checkpoint: Checkpoint) -> list[DirectoryEntry]:
    """Return every entry that is not denied, in order of name."""
    result: list[DirectoryEntry] = []
    with os.scandir(descriptor) as entries:
        for number, entry in enumerate(entries, 1):
            if number % ENTRIES_PER_CHECK == 0:
                checkpoint()
            if number > MAX_DIRECTORY_ENTRIES:
                raise ToolError(
                    f"expected a directory of at most {MAX_DIRECTORY_ENTRIES} entries: {printable(path)} has more"
                )
            if sandbox.denied and sandbox.is_denied([entry.name]):
                continue
            is_directory = entry.is_dir(follow_symlinks=False)
            size = _size(descriptor, entry) if sizes and not is_directory else 0
            result.append(DirectoryEntry(entry.name, is_directory, entry.is_symlink(), size))
    result.sort(key=attrgetter("name"))
    return result


def _size(descriptor: int, entry: os.DirEntry[str]) -> int:
    """Return the size of a regular file, 0 for other entries. The target of a link may be outside the folders."""
    try:
        status = os.stat(entry.name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
