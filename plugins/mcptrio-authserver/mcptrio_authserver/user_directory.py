"""The users of the server: in a file of this machine, or in a database that all replicas share.

The login page and the ``user`` commands use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeVar

import trio
from attrs import asdict

from .ledger import Ledger, Store
from .users import User, check_name, read_users, write_users

__all__ = ["FileUserDirectory", "RecordUserDirectory", "UserDirectory"]

T = TypeVar("T")

_NEVER_EXPIRES: Final = 1e12
# Each login reads all users, so their number is limited, as the size of the file is.
_MAX_USERS: Final = 5000


class UserDirectory(Protocol):
    """Reads and changes the users."""

    async def users(self) -> Mapping[str, User]:
        """Return the current users by name.

        Raises:
            ConfigError: The file is unreadable, accessible to other users of the machine, or malformed.
            StoreFailed: The database cannot be used.
        """
        ...

    async def change(self, change: Callable[[dict[str, User]], T]) -> T:
        """Apply a change to the users.

        Raises:
            ValueError: A name is invalid, or there are too many users.
            OSError: The file cannot be written.
            ConfigError, StoreFailed: As for :meth:`users`.
        """
        ...


class FileUserDirectory:
    """The users in a file. Each call reads it again, so changes take effect at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def users(self) -> Mapping[str, User]:
        return await trio.to_thread.run_sync(read_users, self._path)

    async def change(self, change: Callable[[dict[str, User]], T]) -> T:
        def rewrite() -> T:
            users = dict(read_users(self._path))
            result = change(users)
            write_users(self._path, users)
            return result

        return await trio.to_thread.run_sync(rewrite)


class RecordUserDirectory:
    """The users as records of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def users(self) -> Mapping[str, User]:
        return await self._store.transact(_read_users)

    async def change(self, change: Callable[[dict[str, User]], T]) -> T:
        def work(ledger: Ledger) -> T:
            before = _read_users(ledger)
            users = dict(before)
            result = change(users)
            if len(users) > _MAX_USERS:
                raise ValueError(f"expected at most {_MAX_USERS} users, got {len(users)}")
            for name in before.keys() - users.keys():
                ledger.delete("user", name)
            for name, user in users.items():
                check_name(name)
                if before.get(name) != user:
                    ledger.put("user", name, asdict(user), until=_NEVER_EXPIRES)
            return result

        return await self._store.transact(work)


def _read_users(ledger: Ledger) -> dict[str, User]:
    users = {}
    for record in ledger.list("user"):
        scopes = record["scopes"]
        user = User(name=record["name"], hash=record["hash"], scopes=tuple(scopes) if scopes is not None else None)
        users[user.name] = user
    return users
