"""A token store in the system's keyring: Keychain, Credential Manager, Secret Service or KWallet.

Needs the extra ``keyring``; its library is imported when the store is first used.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from getpass import getuser
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
import trio

from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.stores.file_lock import lock_file

__all__ = ["KeyringTokenStore"]

T = TypeVar("T")

# Characters of one part of a value: Windows stores at most 1280 per entry.
_MAX_PART_CHARS: Final = 1000
# Parts of one value.
_MAX_PARTS: Final = 200
# Seconds to wait for another process that renews a login.
_RENEWAL_TIMEOUT: Final = 60.0
# Keys in the list.
_MAX_KEYS: Final = 1000
# The entry with the list of keys, because a keyring cannot list its entries. If two processes save new keys at the same
# time, one may be missing in the list; its value can still be loaded.
_KEYS_ENTRY: Final = "keys"


class KeyringTokenStore:
    """A :class:`mcptrio.abc.TokenStore` in the system's keyring.

    Args:
        service: The service name of the entries.
        locks: A private folder for the lock files of processes that renew a login; by default ``mcptrio-locks-USER`` in
            the system's folder for temporary files.
    """

    def __init__(self, *, service: str = "mcptrio", locks: Path | str | None = None) -> None:
        self._service = service
        self._folder = Path(tempfile.gettempdir(), f"mcptrio-locks-{_user()}") if locks is None else Path(locks)
        self._lock = trio.Lock()

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key against other processes.

        Raises:
            StoreFailed: Another process held the lock for a minute, or the folder for lock files cannot be used.
        """
        digest = sha256(f"{self._service} {key}".encode()).hexdigest()[:16]
        async with AsyncExitStack() as stack:
            try:
                await trio.to_thread.run_sync(self._make_folder)
                await stack.enter_async_context(lock_file(self._folder / f"{digest}.lock", timeout=_RENEWAL_TIMEOUT))
            except StoreFailed:
                raise
            except OSError as error:
                raise StoreFailed(f"{self._folder}: {error.strerror or error}") from error
            yield

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._folder.lstat()
        # In a shared folder for temporary files, another user may have created a folder of this name.
        if sys.platform != "win32" and (not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid()):
            raise StoreFailed(f"{self._folder}: expected your own folder, got user {status.st_uid}'s")

    async def load(self, key: str) -> Mapping[str, Any] | None:
        """Return the value of a key, or ``None``.

        Raises:
            StoreFailed: The system has no keyring, or it is locked.
            ConfigError: The extra is not installed.
        """
        credentials = await self._in_thread(lambda ring: ring.get(f"key:{key}"))
        return credentials if isinstance(credentials, dict) else None

    async def save(self, key: str, value: Mapping[str, Any]) -> None:
        """Store a value.

        Raises:
            StoreFailed, ConfigError: As for :meth:`load`; or the value is larger than 200,000 characters.
        """
        copy = dict(value)

        def put(ring: _Ring) -> None:
            ring.put(f"key:{key}", copy)
            if key not in (listed := ring.listed()):
                ring.put(_KEYS_ENTRY, [*listed, key][-_MAX_KEYS:])

        await self._in_thread(put)

    async def delete(self, key: str) -> bool:
        """Delete a key; return whether it existed.

        Raises:
            StoreFailed, ConfigError: As for :meth:`load`.
        """

        def drop(ring: _Ring) -> bool:
            if key in (listed := ring.listed()):
                ring.put(_KEYS_ENTRY, [each for each in listed if each != key])
            return ring.drop(f"key:{key}")

        return await self._in_thread(drop)

    async def keys(self) -> Sequence[str]:
        """Return all keys.

        Raises:
            StoreFailed, ConfigError: As for :meth:`load`.
        """
        return tuple(await self._in_thread(lambda ring: ring.listed()))

    async def _in_thread(self, work: Callable[[_Ring], T]) -> T:
        # One call at a time. A keyring may ask the user for a password and wait as long as they take; a cancelled
        # caller abandons the thread.
        async with self._lock:
            return await trio.to_thread.run_sync(lambda: work(_Ring(self._service)), abandon_on_cancel=True)


class _Ring:
    """JSON values in a keyring, split into parts. All methods block."""

    def __init__(self, service: str) -> None:
        try:
            import keyring
            import keyring.backends.fail
            import keyring.backends.null
            from keyring.errors import KeyringError
        except ImportError as error:
            raise ConfigError("the system's keyring needs the distribution keyring: pip install keyring") from error
        self._ring = keyring.get_keyring()
        if isinstance(self._ring, keyring.backends.fail.Keyring | keyring.backends.null.Keyring):
            raise StoreFailed("expected a system keyring, got none; keep the tokens in a file instead")
        self._service = service
        self._error = KeyringError

    def get(self, name: str) -> Any:
        head = self._read(name)
        if not isinstance(head, dict):
            return None
        mark, parts = head.get("mark"), head.get("parts")
        if not isinstance(mark, str) or not isinstance(parts, int) or not 0 < parts <= _MAX_PARTS:
            return None
        texts = [self._call(self._ring.get_password, f"{name}#{mark}.{number}") for number in range(parts)]
        try:
            return None if None in texts else orjson.loads("".join(texts))
        except orjson.JSONDecodeError:
            # Another process replaced the parts in between, or changed them; treat the value as missing.
            return None

    def put(self, name: str, value: Any) -> None:
        text = orjson.dumps(value).decode()
        parts = [text[at : at + _MAX_PART_CHARS] for at in range(0, len(text), _MAX_PART_CHARS)]
        if len(parts) > _MAX_PARTS:
            raise StoreFailed(f"expected a value of at most {_MAX_PART_CHARS * _MAX_PARTS} characters, got {len(text)}")
        before, mark = self._read(name), secrets.token_hex(4)
        # The parts first, under a new mark, then the head that names them: a reader sees the old value or the new one.
        for number, part in enumerate(parts):
            self._call(self._ring.set_password, f"{name}#{mark}.{number}", part)
        head = orjson.dumps({"mark": mark, "parts": len(parts)}).decode()
        self._call(self._ring.set_password, name, head)
        self._drop_parts(name, before)

    def drop(self, name: str) -> bool:
        head = self._read(name)
        if head is None:
            return False
        self._call(self._ring.delete_password, name)
        self._drop_parts(name, head)
        return True

    def listed(self) -> list[str]:
        keys = self.get(_KEYS_ENTRY)
        return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []

    def _read(self, name: str) -> Any:
        text = self._call(self._ring.get_password, name)
        try:
            return None if text is None else orjson.loads(text)
        except orjson.JSONDecodeError:
            return {}

    def _drop_parts(self, name: str, head: Any) -> None:
        if not isinstance(head, dict) or not isinstance(parts := head.get("parts"), int):
            return
        for number in range(min(parts, _MAX_PARTS)):
            part = f"{name}#{head.get('mark')}.{number}"
            if self._call(self._ring.get_password, part) is not None:
                self._call(self._ring.delete_password, part)

    def _call(self, function: Callable[..., Any], *args: str) -> Any:
        try:
            return function(self._service, *args)
        except self._error as error:
            raise StoreFailed(f"the system's keyring failed: {error or type(error).__name__}") from error


def _user() -> str:
    return getuser() if sys.platform == "win32" else str(os.geteuid())
