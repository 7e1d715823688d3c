"""Opens a resolved path without ever following a symbolic link.

The sandbox calls it with a path that is resolved and checked; walks call it for the entries below such a path. Each
step opens one component with ``O_NOFOLLOW``, relative to the previous directory. If a component has become a symbolic
link in the meantime, the step fails with ``Swapped``.

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
    "Swapped",
    "components",
    "created_at",
    "descend",
    "open_listing",
    "open_regular",
    "open_regular_in",
    "resolve",
    "stat_below",
    "step",
]

# To pass through a directory needs the permission to search it, not to read it.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe that appears in place of the file would hold the thread for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Swapped(OSError):
    """A component has turned into a symbolic link since the path was resolved."""


def resolve(path: str) -> str:
    """Return the absolute path with every symbolic link resolved; missing components are kept.

    Raises:
        Swapped: a symbolic link was replaced between its check and its reading.
    """
    try:
        return os.path.realpath(path)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
            raise Swapped from error
        raise


def descend(real: str) -> int:
    """Step from ``/`` to a directory; the caller closes the descriptor.

    Raises:
        OSError: see open(2).
        Swapped: the path has changed since it was resolved.
    """
    at = os.open("/", _STEP)
    try:
        for name in components(real):
            deeper = step(at, name)
            os.close(at)
            at = deeper
    except BaseException:
        os.close(at)
        raise
    return at


def step(at: int, name: str) -> int:
    """Open a directory in an opened directory; the caller closes both. Raises as ``descend``."""
    try:
        return os.open(name, _STEP, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and _was_link(at, name):
            raise Swapped from error
        raise


def open_listing(real: str) -> int:
    """Open a directory to list it; the caller closes the descriptor. Raises as ``descend``."""
    at = descend(real)
    try:
        return os.open(".", _LIST, dir_fd=at)
    finally:
        os.close(at)


def open_regular(real: str) -> int:
    """Open a regular file to read it; the caller closes the descriptor.

    Raises:
        ToolError: it is a directory, a device, a pipe or a socket.
        OSError: as ``descend``.
    """
    above, name = os.path.split(real)
    at = descend(above)
    try:
        return open_regular_in(at, name or ".", real)
    finally:
        os.close(at)


def open_regular_in(at: int, name: str, real: str) -> int:
    """Open a regular file in an opened directory. Raises as ``open_regular``.

    Args:
        real: its path, for messages.
    """
    # Checked before it is opened, because opening a device can have side effects.
    _expect_regular(os.stat(name, dir_fd=at, follow_symlinks=False), real)
    try:
        descriptor = os.open(name, _READ, dir_fd=at)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Swapped from error
        raise
    try:
        _expect_regular(os.fstat(descriptor), real)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def stat_below(real: str) -> os.stat_result:
    """The result of stat(2). Raises as ``descend``."""
    if real == "/":
        return os.stat("/")
    above, name = os.path.split(real)
    at = descend(above)
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
    finally:
        os.close(at)
    if stat.S_ISLNK(status.st_mode):
        raise Swapped
    return status


def created_at(real: str) -> float | None:
    """Return the time of creation of a file or directory. Raises as ``descend``."""
    above, name = os.path.split(real)
    at = descend(above)
    try:
        return birth_time(at, name or ".")
    finally:
        os.close(at)


def components(path: str) -> list[str]:
    """The names in a path."""
    return [name for name in path.split("/") if name and name != "."]


def _was_link(at: int, name: str) -> bool:
    """Return whether a path that is not a directory is, or may just have been, a symbolic link."""
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return True  # removed since the check: resolve the path again
    return stat.S_ISLNK(mode) or stat.S_ISDIR(mode)  # a directory now, but something else a moment ago


def _expect_regular(status: os.stat_result, real: str) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise Swapped
    kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
    raise ToolError(f"expected a file, got {kind}: {printable(real)}")
