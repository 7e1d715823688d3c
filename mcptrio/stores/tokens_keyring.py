"""What a client was granted, in the keyring of the system: Keychain, Credential Manager, Secret Service, KWallet.

Needs the extra ``keyring``, whose library is loaded when the store is first used.
The one rule: a value counts once its head is written. It is written in parts, since Windows takes no more than 1280
characters at once, and the head, which names the parts, last.

A keyring cannot be asked what is in it, so there is an entry with a list of all keys. Two processes that save different
keys for the first time at the same moment may leave one of them out of the list; it is found by its key all the same.
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

_PART: Final = 1000
"""Characters."""
_PARTS: Final = 200
"""Of one value."""
_RENEWAL: Final = 60.0
"""Seconds to wait for another process that renews a login."""
_KEYS: Final = 1000
"""In the list."""
_LIST: Final = "keys"


class KeyringTokenStore:
    """A :class:`mcptrio.abc.TokenStore` in the system's keyring.

    Args:
        service: what the entries are filed under.
        locks: a folder of the user's own for the files by which processes take turns in renewing a login; by default
            ``mcptrio-locks-USER`` among the temporary files of the system.
    """

    def __init__(self, *, service: str = "mcptrio", locks: Path | str | None = None) -> None:
        self._service = service
        self._folder = Path(tempfile.gettempdir(), f"mcptrio-locks-{_user()}") if locks is None else Path(locks)
        self._lock = trio.Lock()

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """
        Raises:
            StoreFailed: another process has held the lock for a minute, or the folder for it cannot be used.
        """
        digest = sha256(f"{self._service} {key}".encode()).hexdigest()[:16]
        async with AsyncExitStack() as stack:
            try:
                await trio.to_thread.run_sync(self._make_folder)
                await stack.enter_async_context(lock_file(self._folder / f"{digest}.lock", timeout=_RENEWAL))
            except StoreFailed:
                raise
            except OSError as error:
                raise StoreFailed(f"{self._folder}: {error.strerror or error}") from error
            yield

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self._folder.lstat()
        # Among the temporary files, another user may have made a folder of this name before.
        if sys.platform != "win32" and (not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid()):
            raise StoreFailed(f"{self._folder}: expected a folder of your own, got user {found.st_uid}'s")

    async def load(self, key: str) -> Mapping[str, Any] | None:
        """
        Raises:
            StoreFailed: there is no keyring, or it is locked.
            ConfigError: the extra is not installed.
        """
        found = await self._in_thread(lambda ring: ring.get(f"key:{key}"))
        return found if isinstance(found, dict) else None

    async def save(self, key: str, value: Mapping[str, Any]) -> None:
        """
        Raises:
            StoreFailed, ConfigError: as :meth:`load`; or it is larger than 200,000 characters.
        """
        copy = dict(value)

        def put(ring: _Ring) -> None:
            ring.put(f"key:{key}", copy)
            if key not in (listed := ring.listed()):
                ring.put(_LIST, [*listed, key][-_KEYS:])

        await self._in_thread(put)

    async def delete(self, key: str) -> bool:
        """
        Raises:
            StoreFailed, ConfigError: as :meth:`load`.
        """

        def drop(ring: _Ring) -> bool:
            if key in (listed := ring.listed()):
                ring.put(_LIST, [each for each in listed if each != key])
            return ring.drop(f"key:{key}")

        return await self._in_thread(drop)

    async def keys(self) -> Sequence[str]:
        """
        Raises:
            StoreFailed, ConfigError: as :meth:`load`.
        """
        return tuple(await self._in_thread(lambda ring: ring.listed()))

    async def _in_thread(self, work: Callable[[_Ring], T]) -> T:
        # One after the other. A keyring may ask the person for a password, for as long as they take; who does not wait
        # for it leaves the thread behind.
        async with self._lock:
            return await trio.to_thread.run_sync(lambda: work(_Ring(self._service)), abandon_on_cancel=True)


class _Ring:
    """JSON values in a keyring, in parts. Blocks."""

    def __init__(self, service: str) -> None:
        try:
            import keyring
            import keyring.backends.fail
            import keyring.backends.null
            from keyring.errors import KeyringError
        except ImportError as error:
            raise ConfigError("the system's keyring needs: pip install 'mcptrio[keyring]'") from error
        self._ring = keyring.get_keyring()
        if isinstance(self._ring, keyring.backends.fail.Keyring | keyring.backends.null.Keyring):
            raise StoreFailed("expected a keyring of the system, got none; a file can keep tokens too")
        self._service = service
        self._error = KeyringError

    def get(self, name: str) -> Any:
        head = self._read(name)
        if not isinstance(head, dict):
            return None
        mark, parts = head.get("mark"), head.get("parts")
        if not isinstance(mark, str) or not isinstance(parts, int) or not 0 < parts <= _PARTS:
            return None
        texts = [self._call(self._ring.get_password, f"{name}#{mark}.{number}") for number in range(parts)]
        try:
            return None if None in texts else orjson.loads("".join(texts))
        except orjson.JSONDecodeError:
            return None  # overwritten in between, or meddled with: as good as none

    def put(self, name: str, value: Any) -> None:
        text = orjson.dumps(value).decode()
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        if len(parts) > _PARTS:
            raise StoreFailed(f"expected a value of at most {_PART * _PARTS} characters, got {len(text)}")
        before, mark = self._read(name), secrets.token_hex(4)
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
        found = self.get(_LIST)
        return [key for key in found if isinstance(key, str)] if isinstance(found, list) else []

    def _read(self, name: str) -> Any:
        text = self._call(self._ring.get_password, name)
        try:
            return None if text is None else orjson.loads(text)
        except orjson.JSONDecodeError:
            return {}

    def _drop_parts(self, name: str, head: Any) -> None:
        if not isinstance(head, dict) or not isinstance(parts := head.get("parts"), int):
            return
        for number in range(min(parts, _PARTS)):
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
