"""Lock files that show which processes use a store.

The SQLite stores use them to find streams whose writer has ended. Each opening of the store holds the lock of its own
file, which the system releases when the process ends for any reason.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mcptrio.errors import StoreFailed
from mcptrio.stores.file_lock import try_lock
from mcptrio.stores.replicas import SeenReplica

__all__ = ["ProcessRegistry"]

_NAME: Final = re.compile(r"[0-9a-f]{16}")
# Attempts at making a lock file. One fails only if another process finds the file before it is locked, and removes it
# as abandoned. A process that checks continuously may cause several failures in a row.
_ATTEMPTS: Final = 100
_UNLINKS_OPEN_FILES: Final = sys.platform != "win32"


class ProcessRegistry:
    """Registers this opening of a store, and shows which others are alive. Every method may block on the disk.

    Args:
        path: The shared file; the lock files are in its folder.

    Raises:
        StoreFailed: No lock file can be made there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.id, self._descriptor = self._enter()

    def is_alive(self, id: str) -> bool:
        """Return True if the process of an opening still runs. If it does not, remove its lock file."""
        if id == self.id:
            return True
        if not _NAME.fullmatch(id):
            return False
        path = self._lock_file(id)
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        except OSError:
            # An error such as too many open files says nothing about the other process.
            return True
        try:
            try:
                # More reliable than a process id, which has no meaning in another container and is soon reused. Faster
                # than a heartbeat, which has to be missed first.
                gone = try_lock(descriptor)
            except OSError:
                # As above: the error says nothing about the other process.
                return True
            if gone and _UNLINKS_OPEN_FILES:
                # Under the lock: a process that has just created the file locks it next, and notices that it was
                # removed.
                _remove(path)
        finally:
            os.close(descriptor)
        if gone and not _UNLINKS_OPEN_FILES:
            # Windows cannot remove an open file.
            _remove(path)
        return not gone

    def describe(self, id: str) -> SeenReplica:
        """Return the process of an opening, as far as its lock file shows it."""
        path, process, age = self._lock_file(id), 0, None
        # The process may have ended, and some systems let no other process read a locked file.
        with suppress(OSError, ValueError):
            age = max(0.0, time.time() - path.stat().st_mtime)
            process = int(path.read_text("ascii"))
        host = socket.gethostname() if process else ""
        return SeenReplica(id, host, process, age, seen=time.monotonic())

    def sweep(self) -> None:
        """Remove the lock files of processes that have ended."""
        prefix = f"{self._path.name}-"
        for path in self._path.parent.glob(f"{_escape_glob(prefix)}*.lock"):
            self.is_alive(path.name.removeprefix(prefix).removesuffix(".lock"))

    def leave(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _remove(self._lock_file(self.id))

    def _enter(self) -> tuple[str, int]:
        for _ in range(_ATTEMPTS):
            id = secrets.token_hex(8)
            try:
                descriptor = os.open(self._lock_file(id), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            except OSError as error:
                raise StoreFailed(f"{self._lock_file(id)}: cannot be created: {error.strerror}") from error
            # Another process may take the new file for abandoned and remove it before it is locked.
            is_entered = False
            try:
                is_entered = try_lock(descriptor) and os.fstat(descriptor).st_nlink > 0
            except OSError as error:
                raise StoreFailed(f"{self._lock_file(id)}: {error.strerror}") from error
            finally:
                if not is_entered:
                    os.close(descriptor)
                    _remove(self._lock_file(id))
            if is_entered:
                # Only shown to operators, so a failure does not matter.
                with suppress(OSError):
                    os.write(descriptor, str(os.getpid()).encode())
                return id, descriptor
        raise StoreFailed(f"{self._path}: the lock files next to it cannot be locked")

    def _lock_file(self, id: str) -> Path:
        return self._path.with_name(f"{self._path.name}-{id}.lock")


def _remove(path: Path) -> None:
    # A lock file that cannot be removed does no harm.
    with suppress(OSError):
        path.unlink()


def _escape_glob(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)
