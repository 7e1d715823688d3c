"""Opens files in the allowed folders without following symbolic links.

The scan and the resources call it in worker threads. A path is resolved, then checked, and then opened component by
component without following symbolic links, so that the checked file is the one that is read.

Source: openat2(2), ``RESOLVE_NO_SYMLINKS``, which the standard library does not offer.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

__all__ = ["PathForbidden", "open_regular", "read_all", "resolve"]

_TRAVERSE_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe that has replaced the file would block the thread.
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK_BYTES = 256 * 1024


class PathForbidden(OSError):
    """The path leads outside the allowed folders, or is not that of a regular file."""


def resolve(path: str, folders: tuple[str, ...]) -> str:
    """Return a path with all symbolic links resolved.

    Args:
        folders: The allowed folders, resolved.

    Raises:
        PathForbidden: The resolved path is outside the folders.
    """
    real = os.path.realpath(path)
    if not any(Path(real).is_relative_to(folder) for folder in folders):
        raise PathForbidden(f"it leads out of the allowed folders, to {real}")
    return real


def open_regular(real: str) -> int:
    """Open a regular file by its resolved path and return the descriptor. The caller must close it.

    Raises:
        PathForbidden: The path is not that of a regular file.
        OSError: The file cannot be opened, or a component of the path has become a symbolic link.
    """
    *folders, name = Path(real).parts[1:]
    directory = os.open("/", _TRAVERSE_FLAGS)
    try:
        for folder in folders:
            child = os.open(folder, _TRAVERSE_FLAGS, dir_fd=directory)
            os.close(directory)
            directory = child
        descriptor = os.open(name, _READ_FLAGS, dir_fd=directory)
    finally:
        os.close(directory)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise PathForbidden("it is not a regular file")


def read_all(real: str, limit: int, checkpoint: Callable[[], None]) -> tuple[bytes, os.stat_result]:
    """Return the content of a file by its resolved path, and its status from before the read.

    Args:
        limit: Maximum size in bytes. If the file is larger, the result has one byte more than this.
    """
    descriptor = open_regular(real)
    try:
        status = os.fstat(descriptor)
        chunks = []
        remaining = limit + 1
        while remaining and (chunk := os.read(descriptor, min(_CHUNK_BYTES, remaining))):
            checkpoint()
            chunks.append(chunk)
            remaining -= len(chunk)
        return b"".join(chunks), status
    finally:
        os.close(descriptor)
