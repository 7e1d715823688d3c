"""A token store in a file that only its owner can read.

Several processes may share it: a lock file serializes their changes.

Source: POSIX ``rename``, ``flock``; RFC 9700 section 4.14 (protection of refresh tokens).
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
import trio

from mcptrio.errors import StoreFailed
from mcptrio.stores.file_lock import NO_LINK, lock_file

__all__ = ["FileTokenStore"]

T = TypeVar("T")

# Largest file in bytes; a few hundred servers need 1 MiB.
_MAX_BYTES: Final = 4 * 1024 * 1024
# Seconds to wait for another process that renews a login, which takes one request.
_RENEWAL_TIMEOUT: Final = 60.0
# All permissions of group and others.
_OTHERS_ACCESS: Final = 0o077


class FileTokenStore:
    """A :class:`mcptrio.abc.TokenStore` in one file.

    Args:
        path: The file; ``~`` is the home folder. The folder is created with mode 0700 and the file with mode 0600. Lock
            files are created in the same folder.
        lock_timeout: Seconds to wait for another process that changes the file.
    """

    def __init__(self, path: Path | str, *, lock_timeout: float = 10.0) -> None:
        self.path = Path(path).expanduser()
        self._lock_timeout = lock_timeout

    async def load(self, key: str) -> Mapping[str, Any] | None:
        """Return the value of a key, or ``None``.

        Raises:
            StoreFailed: Other users can access the file, or it is malformed.
        """
        credentials = (await self._in_thread(self._read)).get(key)
        return credentials if isinstance(credentials, dict) else None

    async def save(self, key: str, value: Mapping[str, Any]) -> None:
        """Store a value.

        Raises:
            StoreFailed: As for :meth:`load`; or the file cannot be written, or would be larger than 4 MiB.
        """
        copy = dict(value)

        def put(values: dict[str, Any]) -> bool:
            values[key] = copy
            return True

        await self._change(put)

    async def delete(self, key: str) -> bool:
        """Delete a key; return whether it existed.

        Raises:
            StoreFailed: As for :meth:`save`.
        """
        return await self._change(lambda kept: kept.pop(key, None) is not None)

    async def keys(self) -> Sequence[str]:
        """Return all keys.

        Raises:
            StoreFailed: As for :meth:`load`.
        """
        return tuple(await self._in_thread(self._read))

    async def _change(self, change: Callable[[dict[str, Any]], bool]) -> bool:
        """Read, change and replace the file under the lock. Return the result of ``change``: True if it changed it."""

        def rewrite() -> bool:
            values = self._read()
            changed = change(values)
            if changed:
                self._replace(values)
            return changed

        async with self._lock(".lock", self._lock_timeout):
            return await self._in_thread(rewrite)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(work)
        except StoreFailed:
            raise
        except OSError as error:
            raise StoreFailed(f"{self.path}: {error.strerror or error}") from error

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key against other processes.

        Raises:
            StoreFailed: Another process held the lock for a minute, or other users can access the folder.
        """
        digest = sha256(key.encode()).hexdigest()[:16]
        async with self._lock(f".{digest}.lock", _RENEWAL_TIMEOUT):
            yield

    @asynccontextmanager
    async def _lock(self, suffix: str, timeout: float) -> AsyncIterator[None]:
        await self._in_thread(self._make_folder)
        path = self.path.with_name(self.path.name + suffix)

        def check(descriptor: int) -> None:
            _check_private(path, os.fstat(descriptor), stat.S_ISREG)

        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(lock_file(path, timeout=timeout, check=check))
            except StoreFailed:
                raise
            except OSError as error:
                raise StoreFailed(f"{path}: {error.strerror or error}") from error
            yield

    # In a thread

    def _make_folder(self) -> None:
        folder = self.path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(folder, os.stat(folder), stat.S_ISDIR)

    def _read(self) -> dict[str, Any]:
        with suppress(FileNotFoundError):
            _check_private(self.path.parent, os.stat(self.path.parent), stat.S_ISDIR)
        try:
            descriptor = os.open(self.path, os.O_RDONLY | NO_LINK)
        except FileNotFoundError:
            return {}
        with open(descriptor, "rb") as file:
            _check_private(self.path, os.fstat(descriptor), stat.S_ISREG)
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise StoreFailed(f"{self.path}: expected at most {_MAX_BYTES} bytes, got more")
        try:
            values = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            # Without the text around the error, which may be a token.
            raise StoreFailed(f"{self.path}:{error.lineno}: expected JSON, got something else") from None
        if not isinstance(values, dict):
            raise StoreFailed(f"{self.path}: expected a JSON object, got {type(values).__name__}")
        return values

    def _replace(self, values: Mapping[str, Any]) -> None:
        data = orjson.dumps(values, option=orjson.OPT_INDENT_2)
        if len(data) > _MAX_BYTES:
            raise StoreFailed(
                f"{self.path}: expected at most {_MAX_BYTES} bytes of credentials; log out of servers you no longer use"
            )
        # Replaced, never changed in place: readers without the lock see one complete state, and a crash leaves the old
        # one.
        temporary = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, self.path)
        finally:
            # Exists only if the replacement failed.
            temporary.unlink(missing_ok=True)


def _check_private(path: Path, status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    """Check the type, owner and mode of a file or folder before it is used.

    Raises:
        StoreFailed: It has another type, belongs to another user, or is accessible to others.
    """
    is_folder = is_kind is stat.S_ISDIR
    if not is_kind(status.st_mode):
        raise StoreFailed(f"{path}: expected a {'folder' if is_folder else 'regular file'}, got something else")
    # Windows has no modes; a folder in the user's profile is private by default.
    if sys.platform == "win32":
        return
    if status.st_uid != os.geteuid():
        raise StoreFailed(f"{path}: expected your own file or folder, got one of user {status.st_uid}")
    if status.st_mode & _OTHERS_ACCESS:
        mode = "700" if is_folder else "600"
        raise StoreFailed(
            f"{path}: expected access for its owner only, got mode {stat.S_IMODE(status.st_mode):o}: "
            f"run chmod {mode}; other users may have read its contents"
        )
