"""Opens a resolved path without ever following a symbolic link.

The sandbox calls it with a path that is resolved and checked; searches and trees call it for the entries below such a
path. Each component is opened with ``O_NOFOLLOW``, relative to the previous directory. If a component has become a
symbolic link since the path was resolved, opening it raises ``PathChanged``.

Source: openat2(2), ``RESOLVE_NO_SYMLINKS``, which the standard library does not offer.
"""

from __future__ import annotations

import errno
import os
import stat

from mcptrio.errors import ToolError

from .birth_time import birth_time
from .errors import printable

__all__ = [
    "PathChanged",
    "components",
    "created_at",
    "open_child",
    "open_for_traversal",
    "open_listing",
    "open_regular",
    "open_regular_in",
    "resolve",
    "stat_resolved",
]

# Traversing a directory needs only the permission to search it, so these flags do not ask for the one to read it.
_TRAVERSE_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe that has replaced the file would block the thread forever.
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class PathChanged(OSError):
    """A component has turned into a symbolic link since the path was resolved."""


def resolve(path: str) -> str:
    """Return the absolute path with every symbolic link resolved; missing components are kept.

    Raises:
        PathChanged: A symbolic link was replaced between its check and its reading.
    """
    try:
        return os.path.realpath(path)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
            raise PathChanged from error
        raise


def open_for_traversal(real: str) -> int:
    """Open a directory component by component, starting at ``/``; the caller closes the descriptor.

    Raises:
        OSError: See open(2).
        PathChanged: The path has changed since it was resolved.
    """
    directory = os.open("/", _TRAVERSE_FLAGS)
    try:
        for name in components(real):
            child = open_child(directory, name)
            os.close(directory)
            directory = child
    except BaseException:
        os.close(directory)
        raise
    return directory


def open_child(directory: int, name: str) -> int:
    """Open a directory in an opened directory; the caller closes both. Raises as ``open_for_traversal``."""
    try:
        return os.open(name, _TRAVERSE_FLAGS, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and _may_have_been_link(directory, name):
            raise PathChanged from error
        raise


def open_listing(real: str) -> int:
    """Open a directory to list it; the caller closes the descriptor. Raises as ``open_for_traversal``."""
    directory = open_for_traversal(real)
    try:
        return os.open(".", _LIST_FLAGS, dir_fd=directory)
    finally:
        os.close(directory)


def open_regular(real: str) -> int:
    """Open a regular file to read it; the caller closes the descriptor.

    Raises:
        ToolError: The path is a directory, a device, a pipe or a socket.
        OSError: As ``open_for_traversal``.
    """
    parent, name = os.path.split(real)
    directory = open_for_traversal(parent)
    try:
        return open_regular_in(directory, name or ".", real)
    finally:
        os.close(directory)


def open_regular_in(directory: int, name: str, real: str) -> int:
    """Open a regular file in an opened directory. Raises as ``open_regular``.

    Args:
        real: The path of the file, for messages.
    """
    # Checked before it is opened, because opening a device can have side effects.
    _expect_regular(os.stat(name, dir_fd=directory, follow_symlinks=False), real)
    try:
        descriptor = os.open(name, _READ_FLAGS, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathChanged from error
        raise
    try:
        _expect_regular(os.fstat(descriptor), real)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def stat_resolved(real: str) -> os.stat_result:
    """Return the result of stat(2) for a resolved path. Raises as ``open_for_traversal``."""
    if real == "/":
        return os.stat("/")
    parent, name = os.path.split(real)
    directory = open_for_traversal(parent)
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    finally:
        os.close(directory)
    if stat.S_ISLNK(status.st_mode):
        raise PathChanged
    return status


def created_at(real: str) -> float | None:
    """Return the time of creation of a file or directory. Raises as ``open_for_traversal``."""
    parent, name = os.path.split(real)
    directory = open_for_traversal(parent)
    try:
        return birth_time(directory, name or ".")
    finally:
        os.close(directory)


def components(path: str) -> list[str]:
    """Return the names in a path."""
    return [name for name in path.split("/") if name and name != "."]


def _may_have_been_link(directory: int, name: str) -> bool:
    """Return whether an entry that could not be opened as a directory is, or may just have been, a symbolic link."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return True  # removed since the open failed, so the path must be resolved again
    # A directory now was something else when the open failed.
    return stat.S_ISLNK(mode) or stat.S_ISDIR(mode)


def _expect_regular(status: os.stat_result, real: str) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise PathChanged
    kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
    raise ToolError(f"expected a file, got {kind}: {printable(real)}")
