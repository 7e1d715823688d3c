"""The list of detached tasks: what ``mcptrio call`` has left running, and where.

``mcptrio tasks`` shows it and ``mcptrio task`` reads it, so that a user can find a task again. It is a file in the
user's state folder that only the user can read, because a command or a URL may contain a secret.
"""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from attrs import asdict, frozen

from mcptrio.abc import TokenStore
from mcptrio.cli.client.targets import TargetOptions
from mcptrio.cli.terminal.state_folder import state_folder
from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.stores.tokens_file import FileTokenStore

__all__ = ["DetachedTask", "DetachedTasks"]

MAX_TASKS = 100
"""Tasks in the list; the oldest ones are dropped."""
MAX_ID_CHARS = 1_000
"""Maximum number of characters of an id that is kept. The server chooses it."""


@frozen(kw_only=True)
class DetachedTask:
    """One task, and the server that has it.

    Args:
        server: The name of the server, as shown to the user, without secrets.
        started: Unix time in seconds at which the call was detached.
        target, command, plugins: The target as in :class:`mcptrio.cli.client.targets.TargetOptions`.
        folder: The current folder of the call, in which files and plugins are found.
    """

    id: str
    tool: str
    server: str
    started: float
    target: str | None
    command: tuple[str, ...]
    plugins: tuple[str, ...]
    folder: str

    @classmethod
    def of(cls, id: str, tool: str, server: str, options: TargetOptions) -> DetachedTask:
        """Return the entry of a task that was detached now. Headers and variables are not kept."""
        return cls(
            id=id,
            tool=tool,
            server=server,
            started=time.time(),
            target=options.target,
            command=options.command,
            plugins=options.plugins,
            folder=str(Path.cwd()),
        )

    @property
    def started_at(self) -> datetime:
        return datetime.fromtimestamp(self.started, UTC)

    @property
    def has_url(self) -> bool:
        """True if the target is a URL, so that the folder of the call does not matter."""
        return self.target is not None and "://" in self.target.partition(" ")[0]

    @property
    def server_key(self) -> Hashable:
        """A value that is equal for tasks of the same server."""
        return self.target, self.command, self.plugins, None if self.has_url else self.folder

    def options(self, **more: Any) -> TargetOptions:
        """Return the options to connect with.

        Args:
            more: Further ones, such as ``headers``.
        """
        return TargetOptions(target=self.target, command=self.command, plugins=self.plugins, **more)

    @contextmanager
    def in_folder(self) -> Iterator[None]:
        """Work in the folder of the call, where the names of files and plugins have the same meaning.

        Raises:
            ConfigError: The folder cannot be entered.
        """
        if self.has_url:
            yield
            return
        previous_folder = os.getcwd()
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise ConfigError(f"{self.folder}: the folder of the call cannot be entered: {error.strerror}") from error
        try:
            yield
        finally:
            os.chdir(previous_folder)


class DetachedTasks:
    """The list, which several processes may change.

    Args:
        store: Keeps the entries by the id of the task.
    """

    def __init__(self, store: TokenStore) -> None:
        self._store = store

    @classmethod
    def here(cls) -> DetachedTasks:
        """Return the list of this user.

        Raises:
            ConfigError: There is no home folder.
        """
        try:
            # The store locks the file, replaces it as a whole and makes it private. The folder must be private too, so
            # the list has its own.
            return cls(FileTokenStore(state_folder() / "tasks" / "tasks.json"))
        except RuntimeError as error:
            raise ConfigError(f"XDG_STATE_HOME: expected a folder, since there is no home folder: {error}") from error

    async def add(self, task: DetachedTask) -> None:
        """Add a task to the list, and delete the oldest ones beyond :data:`MAX_TASKS`.

        Raises:
            StoreFailed: The file cannot be written, or the id is too long.
        """
        if len(task.id) > MAX_ID_CHARS:
            raise StoreFailed(f"expected an id of at most {MAX_ID_CHARS} characters, got {len(task.id)}")
        await self._store.save(task.id, asdict(task))
        for old in (await self.all())[:-MAX_TASKS]:
            await self._store.delete(old.id)

    async def all(self) -> Sequence[DetachedTask]:
        """Return all entries, oldest first.

        Raises:
            StoreFailed: The file cannot be read.
        """
        tasks = [await self.find(id) for id in await self._store.keys()]
        return sorted((task for task in tasks if task is not None), key=lambda task: task.started)

    async def find(self, id: str) -> DetachedTask | None:
        """Return the task with this id; ``None`` if it is not in the list or its entry is not readable.

        Raises:
            StoreFailed: The file cannot be read.
        """
        entry = await self._store.load(id)
        try:
            return None if entry is None else msgspec.convert(entry, DetachedTask)
        except msgspec.ValidationError:
            # Written by another version, or by hand.
            return None

    async def remove(self, id: str) -> None:
        """Remove a task from the list.

        Raises:
            StoreFailed: The file cannot be written.
        """
        await self._store.delete(id)
