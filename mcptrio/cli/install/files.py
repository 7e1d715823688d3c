"""Reads, backs up and replaces a configuration file of another program.

:mod:`mcptrio.cli.install.plans` uses it. After any failure the file is either the old or the new one, with its
permissions, and a concurrent change by another program is not lost.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from attrs import field, frozen

from mcptrio.connecting.mcp_json.files import MAX_FILE_BYTES
from mcptrio.errors import ConfigError
from mcptrio.ground.bounded_file import read_bytes
from mcptrio.stores.file_lock import try_lock

__all__ = ["MAX_BACKUPS", "Original", "backups", "decode_text", "encode_text", "read"]

MAX_BACKUPS = 5
"""Backups of a file; beyond it, the oldest is deleted."""

_LOCK_TIMEOUT = 5.0
"""Seconds to wait for another process that writes in the same folder."""
_BOM = "\ufeff"
_OWNER_ONLY = 0o600
"""The permissions of a new file, which may contain secrets later."""


@frozen(kw_only=True)
class Original:
    """A file before the edit.

    Args:
        path: The path that the host application uses.
        target: The file itself, with symbolic links resolved.
        data: The content of the file; ``None`` if it does not exist.
        mode: The permissions of the file.
        owner: The user and group of the file; ``None`` if the system has none.
    """

    path: Path
    target: Path
    data: bytes | None = field(repr=False)
    mode: int = _OWNER_ONLY
    owner: tuple[int, int] | None = None

    def replace(self, data: bytes | None) -> None:
        """Replace the file, or delete it."""
        # os.replace needs permission for the folder only, and would also replace a read-only file. access() checks the
        # real user by default, but a write uses the effective one.
        effective = os.access in os.supports_effective_ids
        if self.data is not None and not os.access(self.target, os.W_OK, effective_ids=effective):
            raise ConfigError(f"{self.path}: expected a writable file, got a read-only one")
        try:
            if data is not None:
                self.target.parent.mkdir(parents=True, exist_ok=True)
            with _lock(self.target.parent):
                if data is not None:
                    self._write(self.target, data)
                else:
                    self._check_unchanged()
                    self.target.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror or error}") from error

    def back_up(self) -> Path | None:
        """Copy the file next to itself, with its permissions, and delete the oldest of more than five copies.

        Returns:
            The copy; ``None`` if the file does not exist.
        """
        if self.data is None:
            return None
        copies = backups(self.path)
        number = _number(copies[0]) + 1 if copies else 1
        copy = self.path.with_name(f"{self.path.name}.mcptrio-{number}.bak")
        try:
            # O_EXCL: another process may have made the same copy, and a symbolic link of this name is not followed.
            fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), _OWNER_ONLY)
            with open(fd, "wb") as file:
                file.write(self.data)
            os.chmod(copy, self.mode)
            # The new copy is one of the five.
            for old in copies[MAX_BACKUPS - 1 :]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{copy}: cannot be written: {error.strerror or error}") from error
        return copy

    # Private

    def _write(self, target: Path, data: bytes) -> None:
        # In the same folder, because os.replace fails across file systems (EXDEV).
        fd, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        is_replaced = False
        try:
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                # Without it, a power failure after the rename could leave an empty file.
                os.fsync(file.fileno())
            os.chmod(name, self.mode)
            if self.owner is not None and sys.platform != "win32" and self.owner != (os.geteuid(), os.getegid()):
                os.chown(name, *self.owner)  # under sudo, the file stays the user's
            # As late as possible: a program that does not take our lock can write at any time.
            self._check_unchanged()
            os.replace(name, target)
            is_replaced = True
        finally:
            if not is_replaced:
                with suppress(OSError):
                    os.unlink(name)

    def _check_unchanged(self) -> None:
        now = self.target.read_bytes() if self.target.exists() else None
        if now != self.data:
            raise ConfigError(
                f"{self.path}: another program has changed it in the meantime; nothing was written, try again"
            )


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes of mcptrio between the check of a file and its replacement.

    The folder itself is locked, so no lock file is left in it.
    """
    if sys.platform == "win32":
        # Windows cannot open a folder as a file.
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        deadline = monotonic() + _LOCK_TIMEOUT
        while not _lock_if_supported(descriptor):
            if monotonic() > deadline:
                raise ConfigError(f"{folder}: another process is writing here; try again")
            sleep(0.01)
        yield
    finally:
        # Closing releases the lock.
        os.close(descriptor)


def _lock_if_supported(descriptor: int) -> bool:
    try:
        return try_lock(descriptor)
    except OSError:
        # NFS and others cannot lock a folder. Without the lock, the check still notices nearly all changes by other
        # processes.
        return True


def read(path: Path, *, mode: int = _OWNER_ONLY) -> Original:
    """Read a file.

    Args:
        mode: The permissions that a new file gets.
    """
    try:
        # os.replace would replace a symbolic link by a file.
        target = path.resolve()
        try:
            status = target.stat()
        except FileNotFoundError:
            return Original(path=path, target=target, data=None, mode=mode)
        # Reading a FIFO would wait for a writer.
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: expected a regular file, got another kind")
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links, a NUL in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {why}") from error
    data = read_bytes(target, MAX_FILE_BYTES, lambda problem: ConfigError(f"{path}: {problem}"))
    owner = None if sys.platform == "win32" else (status.st_uid, status.st_gid)
    return Original(path=path, target=target, data=data, mode=stat.S_IMODE(status.st_mode), owner=owner)


def backups(path: Path) -> list[Path]:
    """Return the copies of a file, the newest first."""
    try:
        siblings = list(path.parent.iterdir())
    except OSError:
        return []
    name = re.compile(rf"{re.escape(path.name)}\.mcptrio-[0-9]{{1,9}}\.bak")
    return sorted((each for each in siblings if name.fullmatch(each.name)), key=_number, reverse=True)


def decode_text(path: Path, data: bytes | None) -> tuple[str, str]:
    """Return the byte order mark, if any, and the text."""
    try:
        text = (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        line = (data or b"").count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: expected UTF-8, got other bytes at {error.start}") from None
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def encode_text(mark: str, text: str) -> bytes:
    return (mark + text).encode("utf-8")


def _number(copy: Path) -> int:
    return int(copy.name.rpartition("-")[2].removesuffix(".bak"))
