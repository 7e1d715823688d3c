"""The allowed folders, and the only functions that open files and directories in them.

All calls of this module run in worker threads. The kernel never resolves a path that a client has passed: the sandbox
resolves the path, checks the result, and opens it without following any symbolic link. If a link appears between check
and use, opening fails, and the sandbox resolves the path again.

Two cases are not covered. A hard link or a mount within an allowed folder is read as its target. A directory that is
moved out of the folder while it is being read is read to its end.

Source: the rules are those of the reference filesystem server: the typed and the resolved form of a path are checked,
relative paths are looked up in each folder, and NFC equals NFD.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from msgspec import Struct

from .errors import AccessDenied, explain, printable
from .no_follow import (
    PathChanged,
    components,
    created_at,
    open_child,
    open_for_traversal,
    open_listing,
    open_regular,
    resolve,
    stat_resolved,
)
from .patterns import GlobPattern

__all__ = ["MAX_PATH", "AllowedPath", "Folder", "OpenedParent", "Sandbox"]

MAX_PATH = 4096
"""Maximum number of bytes in a path: PATH_MAX of Linux."""

_ATTEMPTS = 16
"""Maximum number of times that a changing path is resolved. A single rename needs two."""

_T = TypeVar("_T")

_DRIVE = re.compile(r"[A-Za-z]:([\\/]|$)")


class Folder(Struct, frozen=True):
    """An allowed folder. Its path is absolute and normalised, with symbolic links as they were typed."""

    path: str
    anchor: str | None = None
    """For a root of the client: the configured folder that contains it. Deny patterns are relative to that folder."""

    def real(self) -> str:
        """Return the resolved path. It is not cached, because a folder may be mounted or created later."""
        return resolve(self.path)

    def real_if_contains(self, real: str) -> str | None:
        """Return the resolved path of this folder if it contains a resolved path, else None.

        A root of the client must still be in its anchor.
        """
        own = self.real()
        if _is_within(real, own) and (self.anchor is None or _is_within(own, resolve(self.anchor))):
            return own
        return None

    def names_below(self, real: str) -> list[str]:
        """Return the components of a resolved path to which deny patterns apply."""
        return components(os.path.relpath(real, resolve(self.anchor or self.path)))


class AllowedPath(Struct, kw_only=True, frozen=True):
    """A path that has passed the checks."""

    typed: str
    """The absolute, normalised path, with symbolic links as they were typed."""

    real: str
    """The path with every symbolic link resolved."""

    is_folder: bool
    """True if the path is an allowed folder itself, so that its parent is not allowed."""


class OpenedParent(Struct, kw_only=True, frozen=True):
    """The opened parent directory of a path, and the last name of the path."""

    directory: int
    """The descriptor of the directory, open inside the ``with`` block of ``open_parent``."""

    name: str
    location: AllowedPath


class Sandbox(Struct, frozen=True):
    """Allowed folders and denied names. Every method blocks; run it in a thread."""

    folders: tuple[Folder, ...]
    denied: tuple[GlobPattern, ...] = ()

    def narrow(self, roots: tuple[str, ...]) -> Sandbox:
        """Return the intersection of the folders and the client's roots. Symbolic links are resolved first."""
        narrowed = [_retry_while_changing(root, partial(self._intersection, root)) for root in roots]
        return Sandbox(tuple(dict.fromkeys(folder for folders in narrowed for folder in folders)), denied=self.denied)

    def folder_of(self, path: str) -> str:
        """Return the folder that contains a path according to its text, without access to the file system."""
        path = _expand_home(path)
        if not os.path.isabs(path):
            return self.folders[0].path
        normal = _normalize(path)
        return max((f.path for f in self.folders if _is_within(normal, f.path)), key=len, default=self.folders[0].path)

    def absolute(self, path: str) -> str:
        """Return the absolute, normalised form of a path, with symbolic links as typed.

        Raises:
            AccessDenied: The normalised path is outside the folders, or the text is not a valid path.
        """
        return _retry_while_changing(path, lambda: self._absolute(path))

    def locate(self, path: str) -> AllowedPath:
        """Resolve and check a path; it need not exist.

        Raises:
            AccessDenied: The path is outside the allowed folders, possibly through ``..`` or a symbolic link, or it
                matches a deny pattern.
        """
        return self._run_resolved(path, lambda location: location)

    def is_denied(self, names: list[str]) -> bool:
        """Return whether one of these names is denied."""
        return bool(self.denied) and any(pattern.matches([name]) for name in names for pattern in self.denied)

    @contextmanager
    def open_parent(self, path: str, *, follow: bool = True) -> Iterator[OpenedParent]:
        """Open the parent directory of ``path``. The last name of the path need not exist.

        Args:
            follow: Follow the last name if it is a symbolic link. Otherwise the link itself is used, but its target is
                checked as well.

        Raises:
            PathNotFound: The directory does not exist.
            AccessDenied: See ``locate``; or ``path`` is an allowed folder itself.
        """
        directory, name, location = self._run_resolved(path, lambda location: self._step_to_parent(location, follow))
        try:
            yield OpenedParent(directory=directory, name=name, location=location)
        finally:
            os.close(directory)

    @contextmanager
    def open_file(self, path: str) -> Iterator[tuple[int, os.stat_result, AllowedPath]]:
        """Open a regular file for reading, and yield its descriptor, status and path.

        Raises:
            PathNotFound: The file does not exist.
            ToolError: The path is a directory, a device, a pipe or a socket.
        """
        descriptor, location = self._run_resolved(path, lambda location: (open_regular(location.real), location))
        try:
            yield descriptor, os.fstat(descriptor), location
        finally:
            os.close(descriptor)

    @contextmanager
    def open_directory(self, path: str) -> Iterator[tuple[int, AllowedPath]]:
        """Open a directory for listing, and yield its descriptor and path.

        Raises:
            PathNotFound: The directory does not exist.
            ToolError: The path is not a directory.
        """
        descriptor, location = self._run_resolved(path, lambda location: (open_listing(location.real), location))
        try:
            yield descriptor, location
        finally:
            os.close(descriptor)

    def status(self, path: str) -> tuple[os.stat_result, AllowedPath]:
        """Return the status of a file or directory, and its path.

        Raises:
            PathNotFound: The path does not exist.
        """
        return self._run_resolved(path, lambda location: (stat_resolved(location.real), location))

    def creation_time(self, path: str) -> float | None:
        """Return when a file or directory was created, or None if the file system does not record it."""
        return self._run_resolved(path, lambda location: created_at(location.real))

    def make_directories(self, path: str) -> AllowedPath:
        """Make a directory and its missing parents, as ``mkdir -p`` does, below an allowed folder.

        Raises:
            ToolError: A component exists but is not a directory, or the allowed folder does not exist.
        """
        return self._run_resolved(path, self._make_directories)

    def _intersection(self, root: str) -> list[Folder]:
        """Return the intersection of one root with the folders."""
        real_root = resolve(root)
        common: list[Folder] = []
        for folder in self.folders:
            real = folder.real()
            if _is_within(real, real_root):
                common.append(folder)
            elif _is_within(real_root, real):
                common.append(Folder(root, anchor=folder.path))
        return common

    def _make_directories(self, location: AllowedPath) -> AllowedPath:
        above = (folder.real_if_contains(location.real) for folder in self._by_likelihood(location.typed))
        anchor = next((real for real in above if real is not None), None)
        if anchor is None:
            raise PathChanged
        directory = open_for_traversal(anchor)
        try:
            for name in components(os.path.relpath(location.real, anchor)):
                try:
                    os.mkdir(name, dir_fd=directory)
                except FileExistsError:
                    pass
                child = open_child(directory, name)
                os.close(directory)
                directory = child
        finally:
            os.close(directory)
        return location

    def _step_to_parent(self, location: AllowedPath, follow: bool) -> tuple[int, str, AllowedPath]:
        real = location.real
        if not follow:
            above, name = os.path.split(location.typed)
            itself = os.path.join(resolve(above), name)
            if os.path.islink(itself):
                real = itself
                location = AllowedPath(typed=location.typed, real=real, is_folder=location.is_folder)
                if not self._contains(os.path.dirname(real)):
                    raise AccessDenied(f"access denied: {printable(location.typed)} is an allowed directory itself")
        if location.is_folder:
            raise AccessDenied(f"access denied: {printable(location.typed)} is an allowed directory itself")
        above, name = os.path.split(real)
        return open_for_traversal(above), name, location

    def _run_resolved(self, path: str, act: Callable[[AllowedPath], _T]) -> _T:
        return _retry_while_changing(path, lambda: act(self._resolve(path)))

    def _resolve(self, path: str) -> AllowedPath:
        typed = self._absolute(path)
        real = self._spelled_as_on_disk(resolve(typed))
        is_denied = False
        for folder in self._by_likelihood(typed):
            # The first folder that contains the path decides. Other folders may be on a mount that hangs.
            folder_path = folder.real_if_contains(real)
            if folder_path is None:
                continue
            if not self.denied or not self.is_denied(folder.names_below(real)):
                is_folder = real == folder_path or any(other.path in (typed, real) for other in self.folders)
                return AllowedPath(typed=typed, real=real, is_folder=is_folder)
            is_denied = True
        if is_denied:
            raise AccessDenied(f"access denied: {printable(path)} matches a deny pattern")
        raise AccessDenied(
            f"access denied: {printable(path)} leads outside the allowed directories through a symbolic link; "
            f"allowed: {self._names()}"
        )

    def _absolute(self, path: str) -> str:
        if not self.folders:
            raise AccessDenied("access denied: no folder is allowed")
        if not path or "\0" in path or _has_surrogate(path):
            raise AccessDenied(f"access denied: expected a path, got {printable(path)!r}")
        if len(os.fsencode(path)) > MAX_PATH:
            raise AccessDenied(
                f"access denied: expected a path of at most {MAX_PATH} bytes, got {len(path)} characters"
            )
        if _DRIVE.match(path):
            raise AccessDenied(f"access denied: expected a POSIX path, got the Windows path {printable(path)}")
        path = _expand_home(path)
        if os.path.isabs(path):
            candidates = [_normalize(path)]
        else:
            candidates = [_normalize(os.path.join(folder.path, path)) for folder in self.folders]
        for candidate in candidates:
            # The typed forms are compared first, because resolving a folder on a hanging mount would delay calls in
            # other folders.
            above = [folder.path for folder in self.folders if _is_within(candidate, folder.path)]
            above = above or [real for real in (f.real() for f in self.folders) if _is_within(candidate, real)]
            if not above:
                continue
            # A symbolic link with a denied name is denied, whatever its target is.
            if self.denied and all(self.is_denied(components(os.path.relpath(candidate, folder))) for folder in above):
                raise AccessDenied(f"access denied: {printable(path)} matches a deny pattern")
            return candidate
        raise AccessDenied(
            f"access denied: {printable(candidates[0])} is outside the allowed directories; allowed: {self._names()}"
        )

    def _contains(self, real: str) -> bool:
        return any(folder.real_if_contains(real) is not None for folder in self._by_likelihood(real))

    def _by_likelihood(self, typed: str) -> list[Folder]:
        return sorted(self.folders, key=lambda folder: not _is_within(typed, folder.path))

    def _names(self) -> str:
        names = [printable(folder.path) for folder in self.folders[:10]]
        return ", ".join(names) + (f" and {len(self.folders) - 10} more" if len(self.folders) > 10 else "")

    def _spelled_as_on_disk(self, real: str) -> str:
        """Return the path with the spelling on disk if only the Unicode normalisation form differs.

        An ASCII path is returned unchanged, because listing a directory for each missing path would be slow.
        """
        if real.isascii() or os.path.lexists(real) or not self._contains(real):
            return real
        directory = "/"
        names = components(real)
        for index, name in enumerate(names):
            here = os.path.join(directory, name)
            if not name.isascii() and not os.path.lexists(here):
                if not self._contains(directory):
                    return real
                equal_names = _equal_names(directory, name)
                if len(equal_names) > 1:
                    raise AccessDenied(
                        f"access denied: {printable(name)} is ambiguous, {len(equal_names)} names look like it"
                    )
                if not equal_names:
                    return real
                spelled = resolve(os.path.join(directory, equal_names[0], *names[index + 1 :]))
                return self._spelled_as_on_disk(spelled)
            directory = here
        return real


def _retry_while_changing(path: str, attempt: Callable[[], _T]) -> _T:
    """Repeat ``attempt`` while it raises PathChanged, up to ``_ATTEMPTS`` times."""
    for _ in range(_ATTEMPTS):
        try:
            return attempt()
        except PathChanged:
            continue
        except OSError as error:
            raise explain(error, path) from error
    raise AccessDenied(f"access denied: {printable(path)} kept changing while it was being opened")


def _expand_home(path: str) -> str:
    return os.path.expanduser("~") + path[1:] if path == "~" or path.startswith("~/") else path


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _normalize(path: str) -> str:
    normal = os.path.normpath(path)
    # normpath keeps two leading slashes, which POSIX lets systems interpret. On Linux they mean one.
    return normal[1:] if normal.startswith("//") else normal


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def _equal_names(directory: str, name: str) -> list[str]:
    normalized_name = unicodedata.normalize("NFC", name)
    descriptor = open_listing(directory)
    try:
        with os.scandir(descriptor) as entries:
            return [entry.name for entry in entries if unicodedata.normalize("NFC", entry.name) == normalized_name]
    finally:
        os.close(descriptor)
