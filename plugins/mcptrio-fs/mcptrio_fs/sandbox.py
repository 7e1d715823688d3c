"""The allowed folders, and the only way to open something in them.

Every function that opens calls it, in a worker thread. The operating system never resolves a path string: the sandbox
resolves it, checks the result, and opens it without following any symbolic link. If a link is put in place between
check and use, the open fails, and the sandbox starts again.

Not covered: a hard link or a mount within an allowed folder is read as its target, and a directory that is moved out of
the folder while it is being read is read to its end.

Source: the rules are those of the reference filesystem server (typed and real form, relative paths against the
folders, NFC against NFD).
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
from .opening import Swapped, components, created_at, descend, open_listing, open_regular, resolve, stat_below, step
from .patterns import GlobPattern

__all__ = ["MAX_PATH", "AllowedPath", "Folder", "Sandbox", "Spot"]

MAX_PATH = 4096
"""Bytes in one path: Linux' PATH_MAX."""

_ATTEMPTS = 16
"""How often a path is resolved again when it changes under our hands; one honest rename needs two."""

_T = TypeVar("_T")

_DRIVE = re.compile(r"[A-Za-z]:([\\/]|$)")


class Folder(Struct, frozen=True):
    """One allowed folder, as typed: absolute and normalised."""

    path: str
    anchor: str | None = None
    """For a root of the client: the configured folder that contains it. Deny patterns are relative to that folder."""

    def real(self) -> str:
        """Return the resolved path. It is not cached, because a folder may be mounted or created later."""
        return resolve(self.path)

    def real_above(self, real: str) -> str | None:
        """Return the resolved path of this folder if a resolved path is in it, else None.

        A root of the client must itself still be in its anchor.
        """
        own = self.real()
        if _is_within(real, own) and (self.anchor is None or _is_within(own, resolve(self.anchor))):
            return own
        return None

    def names_below(self, real: str) -> list[str]:
        """The components of a resolved path that deny patterns look at."""
        return components(os.path.relpath(real, resolve(self.anchor or self.path)))


class AllowedPath(Struct, kw_only=True, frozen=True):
    """A path that was found to be allowed."""

    typed: str
    """Absolute and normalised, symbolic links as they were typed."""

    real: str
    """Every symbolic link resolved."""

    is_folder: bool
    """It is an allowed folder itself, so its parent is not allowed."""


class Spot(Struct, kw_only=True, frozen=True):
    """An opened directory and a name in it."""

    directory: int
    """The directory's descriptor; it lives as long as the ``with`` block that gave it."""

    name: str
    place: AllowedPath


class Sandbox(Struct, frozen=True):
    """Allowed folders and denied names. Every method blocks; run it in a thread."""

    folders: tuple[Folder, ...]
    denied: tuple[GlobPattern, ...] = ()

    def narrow(self, roots: tuple[str, ...]) -> Sandbox:
        """The part of the folders that the client's roots cover too; symbolic links are resolved before comparing."""
        kept = [_until_still(root, partial(self._common, root)) for root in roots]
        return Sandbox(tuple(dict.fromkeys(folder for folders in kept for folder in folders)), denied=self.denied)

    def folder_of(self, path: str) -> str:
        """The folder a path seems to lie in, by its letters alone; asks nothing of the file system."""
        path = _expand_home(path)
        if not os.path.isabs(path):
            return self.folders[0].path
        normal = _normal(path)
        return max((f.path for f in self.folders if _is_within(normal, f.path)), key=len, default=self.folders[0].path)

    def absolute(self, path: str) -> str:
        """The absolute, normalised form of a path as typed, if one of the folders may hold it.

        Raises:
            AccessDenied: it lies outside, whatever its symbolic links say; or it is no path.
        """
        return _until_still(path, lambda: self._typed(path))

    def locate(self, path: str) -> AllowedPath:
        """Resolve and check a path; it need not exist.

        Raises:
            AccessDenied: outside the allowed folders, through ``..``, a symbolic link or from the start; or denied.
        """
        return self._retrying(path, lambda place: place)

    def is_denied(self, names: list[str]) -> bool:
        """Return whether a name among these components is denied."""
        return bool(self.denied) and any(pattern.matches([name]) for name in names for pattern in self.denied)

    @contextmanager
    def open_parent(self, path: str, *, follow: bool = True) -> Iterator[Spot]:
        """The directory that holds ``path``, opened, and the last name in it, which need not exist.

        Args:
            follow: follow the last name if it is a symbolic link; otherwise the link itself is used, and its target
            is only checked.

        Raises:
            NotThere: the directory does not exist.
            AccessDenied: see ``locate``; or ``path`` is an allowed folder itself.
        """
        directory, name, place = self._retrying(path, lambda place: self._step_to_parent(place, follow))
        try:
            yield Spot(directory=directory, name=name, place=place)
        finally:
            os.close(directory)

    @contextmanager
    def open_file(self, path: str) -> Iterator[tuple[int, os.stat_result, AllowedPath]]:
        """A regular file, opened to be read.

        Raises:
            NotThere: there is none.
            ToolError: it is a directory, a device, a pipe or a socket.
        """
        descriptor, place = self._retrying(path, lambda place: (open_regular(place.real), place))
        try:
            yield descriptor, os.fstat(descriptor), place
        finally:
            os.close(descriptor)

    @contextmanager
    def open_directory(self, path: str) -> Iterator[tuple[int, AllowedPath]]:
        """A directory, opened to be listed.

        Raises:
            NotThere: there is none.
            ToolError: it is something else.
        """
        descriptor, place = self._retrying(path, lambda place: (open_listing(place.real), place))
        try:
            yield descriptor, place
        finally:
            os.close(descriptor)

    def status(self, path: str) -> tuple[os.stat_result, AllowedPath]:
        """The ``stat`` of the file or directory at ``path``.

        Raises:
            NotThere: it does not exist.
        """
        return self._retrying(path, lambda place: (stat_below(place.real), place))

    def created(self, path: str) -> float | None:
        """Return when the file or directory at ``path`` was created, or None if Linux does not say."""
        return self._retrying(path, lambda place: created_at(place.real))

    def make_directories(self, path: str) -> AllowedPath:
        """Make a directory and those above it, as ``mkdir -p``, below an allowed folder.

        Raises:
            ToolError: something that is no directory is in the way, or the allowed folder does not exist.
        """
        return self._retrying(path, self._make)

    def _common(self, root: str) -> list[Folder]:
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

    def _make(self, place: AllowedPath) -> AllowedPath:
        above = (folder.real_above(place.real) for folder in self._by_likelihood(place.typed))
        anchor = next((real for real in above if real is not None), None)
        if anchor is None:
            raise Swapped
        at = descend(anchor)
        try:
            for name in components(os.path.relpath(place.real, anchor)):
                try:
                    os.mkdir(name, dir_fd=at)
                except FileExistsError:
                    pass
                deeper = step(at, name)
                os.close(at)
                at = deeper
        finally:
            os.close(at)
        return place

    def _step_to_parent(self, place: AllowedPath, follow: bool) -> tuple[int, str, AllowedPath]:
        real = place.real
        if not follow:
            above, name = os.path.split(place.typed)
            itself = os.path.join(resolve(above), name)
            if os.path.islink(itself):
                real = itself
                place = AllowedPath(typed=place.typed, real=real, is_folder=place.is_folder)
                if not self._holds(os.path.dirname(real)):
                    raise AccessDenied(f"access denied: {printable(place.typed)} is an allowed directory itself")
        if place.is_folder:
            raise AccessDenied(f"access denied: {printable(place.typed)} is an allowed directory itself")
        above, name = os.path.split(real)
        return descend(above), name, place

    def _retrying(self, path: str, act: Callable[[AllowedPath], _T]) -> _T:
        return _until_still(path, lambda: act(self._resolve(path)))

    def _resolve(self, path: str) -> AllowedPath:
        typed = self._typed(path)
        real = self._spell(resolve(typed))
        is_denied = False
        for folder in self._by_likelihood(typed):
            # The first will do, and the others are left alone: one may lie on a mount that hangs.
            own = folder.real_above(real)
            if own is None:
                continue
            if not self.denied or not self.is_denied(folder.names_below(real)):
                is_folder = real == own or any(other.path in (typed, real) for other in self.folders)
                return AllowedPath(typed=typed, real=real, is_folder=is_folder)
            is_denied = True
        if is_denied:
            raise AccessDenied(f"access denied: {printable(path)} matches a deny pattern")
        raise AccessDenied(
            f"access denied: {printable(path)} leads outside the allowed directories through a symbolic link; "
            f"allowed: {self._names()}"
        )

    def _typed(self, path: str) -> str:
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
            candidates = [_normal(path)]
        else:
            candidates = [_normal(os.path.join(folder.path, path)) for folder in self.folders]
        for candidate in candidates:
            # The typed forms first: the real form of a folder on a hung mount would hold up calls that go elsewhere.
            above = [folder.path for folder in self.folders if _is_within(candidate, folder.path)]
            above = above or [real for real in (f.real() for f in self.folders) if _is_within(candidate, real)]
            if not above:
                continue
            # A denied name that is a symbolic link is denied too, wherever it leads.
            if self.denied and all(self.is_denied(components(os.path.relpath(candidate, folder))) for folder in above):
                raise AccessDenied(f"access denied: {printable(path)} matches a deny pattern")
            return candidate
        raise AccessDenied(
            f"access denied: {printable(candidates[0])} is outside the allowed directories; allowed: {self._names()}"
        )

    def _holds(self, real: str) -> bool:
        return any(folder.real_above(real) is not None for folder in self._by_likelihood(real))

    def _by_likelihood(self, typed: str) -> list[Folder]:
        return sorted(self.folders, key=lambda folder: not _is_within(typed, folder.path))

    def _names(self) -> str:
        shown = [printable(folder.path) for folder in self.folders[:10]]
        return ", ".join(shown) + (f" and {len(self.folders) - 10} more" if len(self.folders) > 10 else "")

    def _spell(self, real: str) -> str:
        """Use the spelling on disk if only the Unicode normalisation form differs.

        An ASCII name is not searched: that would list a directory for every file that does not exist.
        """
        if real.isascii() or os.path.lexists(real) or not self._holds(real):
            return real
        at = "/"
        names = components(real)
        for index, name in enumerate(names):
            here = os.path.join(at, name)
            if not name.isascii() and not os.path.lexists(here):
                if not self._holds(at):
                    return real
                twins = _twins(at, name)
                if len(twins) > 1:
                    raise AccessDenied(
                        f"access denied: {printable(name)} is ambiguous, {len(twins)} names look like it"
                    )
                if not twins:
                    return real
                spelled = resolve(os.path.join(at, twins[0], *names[index + 1 :]))
                return self._spell(spelled)
            at = here
        return real


def _until_still(path: str, attempt: Callable[[], _T]) -> _T:
    """Try again if a symbolic link was created or removed in the meantime."""
    for _ in range(_ATTEMPTS):
        try:
            return attempt()
        except Swapped:
            continue
        except OSError as error:
            raise explain(error, path) from error
    raise AccessDenied(f"access denied: {printable(path)} kept changing while it was being opened")


def _expand_home(path: str) -> str:
    return os.path.expanduser("~") + path[1:] if path == "~" or path.startswith("~/") else path


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _normal(path: str) -> str:
    normal = os.path.normpath(path)
    return normal[1:] if normal.startswith("//") else normal  # POSIX keeps two leading slashes apart, Linux does not


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def _twins(directory: str, name: str) -> list[str]:
    wanted = unicodedata.normalize("NFC", name)
    descriptor = open_listing(directory)
    try:
        with os.scandir(descriptor) as entries:
            return [entry.name for entry in entries if unicodedata.normalize("NFC", entry.name) == wanted]
    finally:
        os.close(descriptor)
