"""Finds an allowed repository by path or name.

Every tool call begins with this search, in a thread. A repository consists of a work tree and its data, and both
must be allowed. Links between them (``.git`` as a link or a file, ``commondir``) are followed and checked before git
runs there.

A user who can write to the data of an allowed repository (``.git/objects/info/alternates``, ``.git/config``) is
trusted, as git does, with the exceptions in ``environment``.

Source: gitrepository-layout(5); git-worktree(1), "Details".
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from attrs import field, frozen

from mcptrio.errors import ToolError

from .config import Config
from .text import printable

__all__ = ["MAX_NAMES", "NO_REPOSITORY", "Repositories", "Repository", "UnknownRepository"]

MAX_NAMES = 1000
"""Maximum number of repositories with a name. Further ones in a folder can be used by their path."""
NO_REPOSITORY = (
    'no repository is allowed: set repositories = ["/absolute/path"] in [plugins.git] of mcptrio.toml, or '
    "MCPTRIO_GIT_REPOSITORIES in the environment"
)
"""The warning at the start, and the error of each call, if no repository is configured."""

_MAX_SHOWN_REPOSITORIES = 20
_MAX_GIT_FILE_BYTES = 4096
"""Maximum size of a ``.git`` file, which contains one path."""


class UnknownRepository(ToolError):
    """The repository does not exist or is not allowed."""


@frozen(kw_only=True, repr=False)
class Repository:
    """An allowed repository."""

    root: str
    """The top folder of the work tree, or the bare repository; an absolute path without symbolic links."""
    git_dir: str
    common_dir: str
    """The folder with the data that all work trees share."""

    @property
    def is_bare(self) -> bool:
        return self.root == self.common_dir


@frozen(kw_only=True, eq=False, repr=False)
class _Entry:
    """A configured path, in its present state on disk."""

    path: str
    root: str | None
    """The repository that contains the path; ``None`` for a folder of repositories."""

    def allows(self, root: str) -> bool:
        return root == self.root or _is_inside(root, self.path)

    def contains_data(self, data: str) -> bool:
        return _is_inside(data, self.path) or (self.root is not None and _is_inside(data, f"{self.root}/.git"))


@frozen(eq=False, repr=False)
class Repositories:
    """The configured repositories. All methods block, so they must be called in threads."""

    config: Config
    _paths: tuple[str, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        paths: list[Path] = [*self.config.repositories]
        if self.config.clone_folder is not None:
            paths.append(self.config.clone_folder)
        absolute = (os.path.abspath(os.path.expanduser(path)) for path in paths)
        object.__setattr__(self, "_paths", tuple(dict.fromkeys(absolute)))

    def find(self, name_or_path: str) -> Repository:
        """Return the repository with this name, or the one that contains this path.

        Args:
            name_or_path: A name as in ``names``, or an absolute path. An empty text and ``.`` mean the only repository.

        Raises:
            UnknownRepository: The repository does not exist or is not allowed.
        """
        if not self._paths:
            raise UnknownRepository(NO_REPOSITORY)
        if "\0" in name_or_path or len(name_or_path) > _MAX_GIT_FILE_BYTES:
            raise UnknownRepository(f"expected a path or name at `repo_path`, got {printable(name_or_path, 100)!r}")
        entries = self._entries()
        expanded = os.path.expanduser(name_or_path)
        if not os.path.isabs(expanded):
            return self._check_allowed(self._root_by_name(name_or_path), entries)
        path = os.path.realpath(expanded)
        root = _root_of(path)
        # An error must not reveal whether a path outside the allowed folders exists.
        inside = any(_is_inside(path, entry.path) or (root and root == entry.root) for entry in entries)
        if root is None:
            problem = "not a git repository" if inside and os.path.lexists(path) else "not an allowed repository"
            raise UnknownRepository(f"{problem}: {printable(name_or_path)}; {self._hint()}")
        return self._check_allowed(root, entries)

    def names(self) -> dict[str, str]:
        """Return at most ``MAX_NAMES`` repositories by name: the configured ones, and those directly in configured
        folders."""
        names: dict[str, str] = {}
        for entry in self._entries():
            for root in _roots_of(entry):
                if root in names.values():
                    continue
                base = os.path.basename(root) or "root"
                number, name = 1, base
                while name in names:
                    number += 1
                    name = f"{base}-{number}"
                names[name] = root
                if len(names) >= MAX_NAMES:
                    return names
        return names

    def missing(self) -> list[str]:
        """Return the configured paths that are not directories."""
        return [path for path in self._paths if not os.path.isdir(path)]

    def _entries(self) -> list[_Entry]:
        real = (os.path.realpath(path) for path in self._paths)
        return [_Entry(path=path, root=path if _is_bare(path) else _root_of(path)) for path in real]

    def _root_by_name(self, name: str) -> str:
        names = self.names()
        if name in names:
            return names[name]
        if name in ("", ".") and len(names) == 1:
            return next(iter(names.values()))
        problem = f"no repository is called {printable(name, 100)!r}" if name else "expected a repository"
        raise UnknownRepository(f"{problem} at `repo_path`; {self._hint()}")

    def _check_allowed(self, root: str, entries: list[_Entry]) -> Repository:
        repository = _read(root, is_bare=_is_bare(root))
        is_data_allowed = all(
            any(entry.contains_data(data) for entry in entries) for data in (repository.git_dir, repository.common_dir)
        )
        is_root_allowed = any(entry.allows(root) for entry in entries)
        if not is_root_allowed and not (is_data_allowed and _is_worktree(repository)):
            raise UnknownRepository(f"not an allowed repository: {printable(root)}; {self._hint()}")
        if not is_data_allowed:
            raise UnknownRepository(
                f"not an allowed repository: {printable(root)} keeps its data outside the allowed repositories; "
                "the repository it belongs to has to be configured"
            )
        return repository

    def _hint(self) -> str:
        names = self.names()
        entries = [f"{printable(name, 100)} ({printable(root, 300)})" for name, root in names.items()]
        if len(entries) > _MAX_SHOWN_REPOSITORIES:
            entries[_MAX_SHOWN_REPOSITORIES:] = [f"and {len(entries) - _MAX_SHOWN_REPOSITORIES} more"]
        return f"allowed: {', '.join(entries) or 'none that exists'}"


def _roots_of(entry: _Entry) -> Iterator[str]:
    if entry.root is not None:
        yield entry.root
        return
    try:
        with os.scandir(entry.path) as folder:
            children = sorted(child.path for child in folder if child.is_dir(follow_symlinks=False))
    except OSError:
        return
    for child in children:
        if os.path.lexists(os.path.join(child, ".git")):
            yield child


def _root_of(path: str) -> str | None:
    """Return the nearest folder with a ``.git``, from ``path`` upwards; ``None`` if there is none."""
    while True:
        if os.path.lexists(os.path.join(path, ".git")):
            return path
        above = os.path.dirname(path)
        if above == path:
            return None
        path = above


def _is_bare(path: str) -> bool:
    """Return whether a configured path is a bare repository.

    Other paths must not be checked like this, because files in a work tree may look like a bare repository.
    """
    return (
        not os.path.lexists(os.path.join(path, ".git"))
        and os.path.isfile(os.path.join(path, "HEAD"))
        and os.path.isdir(os.path.join(path, "objects"))
        and os.path.isdir(os.path.join(path, "refs"))
    )


def _read(root: str, *, is_bare: bool) -> Repository:
    """Return a repository, with the links from its work tree to its data followed."""
    if is_bare:
        return Repository(root=root, git_dir=root, common_dir=root)
    git = os.path.join(root, ".git")
    try:
        if os.path.isfile(git):
            text = _first_line(git)
            if not text.startswith("gitdir:"):
                raise UnknownRepository(f"expected 'gitdir: <path>' in {printable(git)}, got another line")
            git_dir = os.path.realpath(os.path.join(root, text.removeprefix("gitdir:").strip()))
        else:
            git_dir = os.path.realpath(git)
        link = os.path.join(git_dir, "commondir")
        common = os.path.realpath(os.path.join(git_dir, _first_line(link))) if os.path.lexists(link) else git_dir
    except (OSError, ValueError) as error:
        raise UnknownRepository(f"not a usable git repository: {printable(root)}") from error
    return Repository(root=root, git_dir=git_dir, common_dir=common)


def _is_worktree(repository: Repository) -> bool:
    """Return whether the data belongs to this work tree: git stores the path of each work tree in the data."""
    if os.path.dirname(repository.git_dir) != os.path.join(repository.common_dir, "worktrees"):
        return False
    try:
        back = _first_line(os.path.join(repository.git_dir, "gitdir"))
    except (OSError, ValueError):
        return False
    return os.path.realpath(os.path.join(repository.git_dir, back)) == os.path.join(repository.root, ".git")


def _first_line(path: str) -> str:
    """Return the content of a file that contains one path.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not text, or too long.
    """
    with open(path, "rb") as file:
        data = file.read(_MAX_GIT_FILE_BYTES + 1)
    if len(data) > _MAX_GIT_FILE_BYTES or b"\0" in data:
        raise ValueError(f"expected a path of at most {_MAX_GIT_FILE_BYTES} bytes in {path}")
    return os.fsdecode(data).rstrip("\n")


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
