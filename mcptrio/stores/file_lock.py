"""A lock that processes share through a file.

The token stores hold it while they change a file or renew a login, so that two processes do not do it at the same time.
A SQLite store holds it for as long as it is open. ``host install`` holds that of the folder in which it writes.

Source: POSIX ``flock``.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from mcptrio.errors import StoreFailed

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["NO_LINK", "lock_file", "try_lock"]

NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags for :func:`os.open`: follow no symbolic link, and keep the descriptor from child processes."""
_HELD: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES})
"""Errors that mean that another process holds the lock. Windows reports the last one."""
_POLL: Final = 0.02


@asynccontextmanager
async def lock_file(path: Path, *, timeout: float, check: Callable[[int], None] | None = None) -> AsyncIterator[None]:
    """Hold the lock of a file. The system releases it when the process ends, however that happens.

    The file is made with mode 0600 if it is missing, and never removed: a process could otherwise hold the lock of a
    removed file beside the owner of a new one.

    Args:
        timeout: seconds to wait for another process.
        check: called with the open descriptor; what it raises refuses the file.

    Raises:
        StoreFailed: another process has held the lock for all that time.
        OSError: the file cannot be opened or locked.
    """
    descriptor = await trio.to_thread.run_sync(os.open, path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
    try:
        if check is not None:
            check(descriptor)
        with trio.move_on_after(timeout) as scope:
            while not try_lock(descriptor):  # noqa: ASYNC110 - the process that holds it sends no news
                await trio.sleep(_POLL)
        if scope.cancelled_caught:
            raise StoreFailed(f"{path}: another process has held the lock for {timeout:g} seconds")
        yield
    finally:
        os.close(descriptor)  # which releases the lock


def try_lock(descriptor: int) -> bool:
    """Lock an open file until its descriptor is closed. Does not wait.

    Returns:
        False if another process holds the lock.

    Raises:
        OSError: the lock cannot be taken for another reason: the file system has no locks, say.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise OSError(error.errno, f"cannot be locked: {error.strerror}") from error
    return True
