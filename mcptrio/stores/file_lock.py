"""A lock between processes, on a file.

The token stores hold a lock while they change a file or renew a login, a SQLite store while it is open, and ``host
install`` while it writes into a folder.

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
"""Flags for :func:`os.open`: do not follow a symbolic link, do not pass the descriptor to child processes."""
# Errors that mean that another process holds the lock. Windows reports EACCES.
_LOCK_HELD: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES})
# Seconds between two attempts.
_POLL_SECONDS: Final = 0.02


@asynccontextmanager
async def lock_file(path: Path, *, timeout: float, check: Callable[[int], None] | None = None) -> AsyncIterator[None]:
    """Hold the lock of a file, which is created with mode 0600 if necessary.

    The system releases it when the process ends.

    Args:
        path: The lock file.
        timeout: Seconds to wait for another process.
        check: A function called with the open descriptor; it raises to reject the file.

    Raises:
        StoreFailed: Another process held the lock until the timeout.
        OSError: The file cannot be opened or locked.
    """
    # The file is never removed: one process could hold the lock of the removed file while another locks a new one.
    descriptor = await trio.to_thread.run_sync(os.open, path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
    try:
        if check is not None:
            check(descriptor)
        with trio.move_on_after(timeout) as scope:
            while not try_lock(descriptor):  # noqa: ASYNC110 - the system does not announce that a lock is free
                await trio.sleep(_POLL_SECONDS)
        if scope.cancelled_caught:
            raise StoreFailed(f"{path}: another process has held the lock for {timeout:g} seconds")
        yield
    finally:
        # Closing the descriptor releases the lock.
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file until its descriptor is closed. Does not wait.

    Returns:
        False if another process holds the lock.

    Raises:
        OSError: The lock failed for another reason, for example because the file system has no locks.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _LOCK_HELD:
            return False
        raise OSError(error.errno, f"cannot be locked: {error.strerror}") from error
    return True
