"""Finds databases by name.

``Queries`` and the tools call it, in worker threads if the folder must be read. Models pass names, never paths.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import trio
from attrs import frozen

from mcptrio import ToolError

from .config import ALL, Config

__all__ = ["DatabaseFile", "Databases"]

_log = logging.getLogger(__name__)

_SUFFIXES = (".db", ".db3", ".sqlite", ".sqlite3")
_MAX_NAME_CHARS = 128
_MAX_SHOWN_NAMES = 20
"""Maximum number of names in an error message."""


@frozen(kw_only=True)
class DatabaseFile:
    """A database, which may not exist yet."""

    name: str
    path: Path
    is_writable: bool
    is_configured: bool
    """True for a database named in the configuration; the first write creates its file."""


@frozen(eq=False)
class Databases:
    """The databases of the configuration and its folder."""

    config: Config

    def find(self, name: str | None) -> DatabaseFile:
        """Return the database with this name. Blocks if the folder must be read.

        Args:
            name: The name, or ``None`` if only one database exists.

        Raises:
            ToolError: No database has this name, or ``None`` is ambiguous.
        """
        if name is None:
            if self.config.folder is None and len(self.config.databases) == 1:
                (name,) = self.config.databases
            else:
                name = self._only_name()
        path = self.config.databases.get(name)
        if path is not None:
            return self._database(name, path, is_configured=True)
        path = self._in_folder(name)
        if path is None:
            raise ToolError(f"no such database: {_quote(name)}{self._suggestion(name)}")
        return self._database(name, path, is_configured=False)

    def all(self) -> Iterator[DatabaseFile]:
        """Return all databases in order of name. Blocks."""
        names = {*self.config.databases, *self._names_in_folder()}
        for name in sorted(names):
            path = self.config.databases.get(name)
            database_path = path or self._in_folder(name)
            if database_path is not None:
                yield self._database(name, database_path, is_configured=path is not None)

    def problems(self) -> Iterator[str]:
        """Yield a message for each folder or file of the configuration that does not exist. Blocks."""
        folder = self.config.folder
        if folder is not None and not folder.expanduser().is_dir():
            yield f"folder of [plugins.sqlite]: there is no directory {folder}; create it or correct the setting"
        for name, path in self.config.databases.items():
            database = self._database(name, path, is_configured=True)
            # The first write creates the file of a writable database.
            needed = database.path.parent if database.is_writable else database.path
            if not needed.exists():
                yield f"databases.{name} of [plugins.sqlite]: {needed} does not exist; create it or correct the setting"

    async def report_problems(self) -> None:
        """Log what :meth:`problems` yields. Runs once, when the server starts."""
        for problem in await trio.to_thread.run_sync(list, self.problems(), abandon_on_cancel=True):
            _log.warning("%s", problem)

    def _database(self, name: str, path: Path, *, is_configured: bool) -> DatabaseFile:
        return DatabaseFile(
            name=name,
            # Path.as_uri() requires an absolute path.
            path=Path(os.path.abspath(path.expanduser())),
            is_writable=ALL in self.config.writable or name in self.config.writable,
            is_configured=is_configured,
        )

    def _only_name(self) -> str:
        names = [database.name for database in self.all()]
        if len(names) == 1:
            return names[0]
        if names:
            raise ToolError(f"expected database, one of {_join_names(names)}, got none")
        raise ToolError(
            'no database is configured: set databases = { main = "/path/to/file.db" } in [plugins.sqlite] of '
            "mcptrio.toml"
        )

    def _suggestion(self, name: str) -> str:
        names = [database.name for database in self.all()]
        if near := difflib.get_close_matches(name, names, 1):
            return f"; did you mean `{near[0]}`?"
        return f"; expected one of {_join_names(names)}" if names else "; none is configured"

    def _names_in_folder(self) -> list[str]:
        if self.config.folder is None:
            return []
        try:
            with os.scandir(self.config.folder.expanduser()) as entries:
                names = sorted(entry.name for entry in entries if _is_database_name(entry.name) and entry.is_file())
        except OSError as error:
            raise ToolError(
                f"the folder of databases (folder in [plugins.sqlite]) cannot be read: {error.strerror}"
            ) from error
        return names[: self.config.max_databases]

    def _in_folder(self, name: str) -> Path | None:
        """Return the file of this name, or ``None`` if the folder does not contain it."""
        if self.config.folder is None or not _is_database_name(name):
            return None
        folder = os.path.realpath(self.config.folder.expanduser())
        real = os.path.realpath(os.path.join(folder, name))
        # A symbolic link may lead out of the folder.
        if os.path.dirname(real) != folder or not os.path.isfile(real):
            return None
        return Path(real)


def _is_database_name(name: str) -> bool:
    """Return whether a model may use this file name: a known suffix, not hidden, printable, and no separator."""
    return (
        name.lower().endswith(_SUFFIXES)
        and len(name) <= _MAX_NAME_CHARS
        and not name.startswith(".")
        and name.isprintable()
        and "/" not in name
        and os.sep not in name
    )


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_SHOWN_NAMES} more" if len(names) > _MAX_SHOWN_NAMES else ""
    return ", ".join(names[:_MAX_SHOWN_NAMES]) + more


def _quote(name: str) -> str:
    return repr(name if len(name) <= _MAX_NAME_CHARS else name[:_MAX_NAME_CHARS] + "…")
