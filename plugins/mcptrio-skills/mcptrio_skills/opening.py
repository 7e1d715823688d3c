"""Opens files and folders below an allowed folder.

The scan and reads call it in worker threads. A path is resolved first and then checked, and opened step by step without
following symbolic links, so that the checked file is the one that is read.

Source: openat2(2), ``RESOLVE_NO_SYMLINKS``, which the standard library does not offer.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

__all__ = ["Forbidden", "open_regular", "read_all", "resolve"]

_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe that appears in place of the file would hold the thread for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE = 256 * 1024


class Forbidden(OSError):
    """It leads out of the allowed folders, or is no regular file."""


def resolve(path: str, folders: tuple[str, ...]) -> str:
    """The path with every symbolic link resolved.

    Args:
        folders: the allowed folders, resolved.

    Raises:
        Forbidden: it leads out of them.
    """
    real = os.path.realpath(path)
    if not any(Path(real).is_relative_to(folder) for folder in folders):
        raise Forbidden(f"it leads out of the allowed folders, to {real}")
    return real


def open_regular(real: str) -> int:
    """A descriptor of a resolved regular file; the caller closes it.

    Raises:
        Forbidden: it is not a regular file.
        OSError: as open(2) says; also if a part has become a symbolic link.
    """
    *folders, name = Path(real).parts[1:]
    at = os.open("/", _STEP)
    try:
        for folder in folders:
            deeper = os.open(folder, _STEP, dir_fd=at)
            os.close(at)
            at = deeper
        descriptor = os.open(name, _READ, dir_fd=at)
    finally:
        os.close(at)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise Forbidden("it is no regular file")


def read_all(real: str, limit: int, checkpoint: Callable[[], None]) -> tuple[bytes, os.stat_result]:
    """Return the content of a resolved file, and its status from before the read.

    Args:
        limit: the maximum of bytes; if the file is larger, one byte more is read.
    """
    descriptor = open_regular(real)
    try:
        status = os.fstat(descriptor)
        pieces = []
        left = limit + 1
        while left and (piece := os.read(descriptor, min(_PIECE, left))):
            checkpoint()
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces), status
    finally:
        os.close(descriptor)
