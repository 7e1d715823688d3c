"""Which processes use a file together: each holds a lock, which the system takes away when it ends, however it ends.

Used by the SQLite stores, to know whose streams nobody will go on writing. A lock says more than a process id, which
means nothing in another container and is soon somebody else's, and says it at once, where a heartbeat has to be missed
first.
The one rule: a lock file belongs to one opening of the store; whoever gets the lock of another one knows that it is
gone, and removes the file.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from mcptrio.errors import StoreFailed
from mcptrio.stores.file_lock import try_lock

__all__ = ["ProcessRegistry"]

_NAME: Final = re.compile(r"[0-9a-f]{16}")
_ATTEMPTS: Final = 10
"""Names to try; each fails only if another process takes the new file for one that was left behind."""
_UNLINKS_OPEN_FILES: Final = sys.platform != "win32"


class ProcessRegistry:
    """This opening of a file among others. Every method may wait for the disk.

    Args:
        path: of the file that is used together; the lock files stand beside it.

    Raises:
        StoreFailed: no lock file can be made there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.id, self._descriptor = self._enter()

    def is_alive(self, id: str) -> bool:
        """Whether that opening still is one. Removes its lock file if not."""
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
            # Too many open files, for example, says nothing about the other process.
            return True
        try:
            try:
                gone = try_lock(descriptor)
            except OSError:
                return True  # as above
            if gone and _UNLINKS_OPEN_FILES:
                # Under the lock: its maker, which comes for the lock next, then sees that the file has no name.
                _remove(path)
        finally:
            os.close(descriptor)
        if gone and not _UNLINKS_OPEN_FILES:
            # Windows keeps a file that its maker has open.
            _remove(path)
        return not gone

    def sweep(self) -> None:
        """Remove the lock files of those that are gone."""
        prefix = f"{self._path.name}-"
        for path in self._path.parent.glob(f"{_escaped(prefix)}*.lock"):
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
                raise StoreFailed(f"{self._lock_file(id)}: cannot be made: {error.strerror}") from error
            # Between being made and being locked, the file of a living process looks like one that was left behind.
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
                return id, descriptor
        raise StoreFailed(f"{self._path}: lock files beside it cannot be locked")

    def _lock_file(self, id: str) -> Path:
        return self._path.with_name(f"{self._path.name}-{id}.lock")


def _remove(path: Path) -> None:
    """Remove a lock file that has no use any more. One that cannot be removed does no harm."""
    with suppress(OSError):
        path.unlink()


def _escaped(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)
