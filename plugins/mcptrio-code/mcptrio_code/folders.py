"""The allowed folders, and the files in them.

The tools and the documents use it, in worker threads. A path is first resolved, then checked, then opened component by
component without following symbolic links, so that the file that was checked is the one that is opened.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from attrs import field, frozen

from mcptrio import ToolError

__all__ = ["CodeFolders", "SourceText", "path_of_uri"]

_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_PATH_CHARS: Final = 4096
_BOM: Final = "\ufeff"


@frozen
class SourceText:
    """A file as it was read."""

    data: bytes = field(repr=False)
    text: str = field(repr=False)
    """Without the byte order mark."""
    signature: tuple[int, int]
    """Time of the last change in nanoseconds, and size in bytes."""

    def encode(self, text: str) -> bytes:
        """Return another text in the form of this file."""
        return ((_BOM if self.data.startswith(_BOM.encode()) else "") + text).encode()


@frozen
class CodeFolders:
    """The allowed folders.

    Attributes:
        paths: Absolute and normalized.
        max_file_bytes: Size of the largest file that is read.
    """

    paths: tuple[Path, ...]
    max_file_bytes: int

    def resolve(self, path: str) -> str:
        """Return the absolute path of a file, with all symbolic links resolved.

        Args:
            path: Absolute, or relative to one of the folders.

        Raises:
            ToolError: The path is outside the folders, or there is no file.
        """
        if not self.paths:
            raise ToolError('no folder is allowed: set folders = ["/absolute/path"] in [plugins.code] of mcptrio.toml')
        if not path or "\0" in path or len(path) > _MAX_PATH_CHARS:
            raise ToolError(f"path: expected the path of a file, got {path[:100]!r}")
        try:
            candidates = [os.path.realpath(folder / os.path.expanduser(path)) for folder in self.paths]
        except UnicodeEncodeError:
            raise ToolError("path: expected a path without lone surrogates") from None
        allowed = [each for each in candidates if self.folder_of(each) is not None]
        if not allowed:
            raise ToolError(f"path: expected a file inside {self}, got {path!r}")
        found = next((each for each in allowed if os.path.lexists(each)), None)
        if found is None:
            raise ToolError(f"path: {path!r} does not exist in {self}")
        return found

    def folder_of(self, real: str) -> str | None:
        """Return the folder, resolved, that a resolved path is inside; the innermost one if there are several."""
        resolved = [os.path.realpath(folder) for folder in self.paths]
        return max((each for each in resolved if Path(real).is_relative_to(each)), key=len, default=None)

    def shown(self, real: str) -> str:
        """Return a path as the tools show it and accept it: relative to the first folder if it is inside."""
        if self.paths:
            first = os.path.realpath(self.paths[0])
            if Path(real).is_relative_to(first):
                return os.path.relpath(real, first)
        return real

    def read(self, real: str) -> SourceText:
        """Read a resolved path.

        Raises:
            ToolError: The path is outside the folders, is no regular file, is too long, or is not UTF-8.
        """
        name = self.shown(real)
        parent = self._open_parent(real)
        try:
            descriptor = os.open(os.path.basename(real), _READ, dir_fd=parent)
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from error
        finally:
            os.close(parent)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(f"{name}: expected a file, got a folder or a device")
            data = file.read(self.max_file_bytes + 1)
        if len(data) > self.max_file_bytes:
            raise ToolError(
                f"{name}: expected at most {self.max_file_bytes} bytes (max_file_bytes), got {status.st_size}"
            )
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise ToolError(f"{name}: expected UTF-8, got another byte at offset {error.start}") from None
        return SourceText(data, text.removeprefix(_BOM), (status.st_mtime_ns, status.st_size))

    def replace(self, real: str, old: SourceText, data: bytes) -> None:
        """Replace the content of a file atomically, with its mode kept.

        Raises:
            ToolError: The file has changed since ``old`` was read, or cannot be written.
        """
        name = self.shown(real)
        if self.read(real).data != old.data:
            raise ToolError(f"{name} has changed in the meantime; call again")
        parent = self._open_parent(real)
        last = os.path.basename(real)
        scratch = f".{last[:100]}.{os.urandom(6).hex()}.tmp"
        try:
            mode = stat.S_IMODE(os.stat(last, dir_fd=parent, follow_symlinks=False).st_mode)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(scratch, flags, 0o600, dir_fd=parent), "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), mode)
            os.replace(scratch, last, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError as error:
            with suppress(OSError):
                os.unlink(scratch, dir_fd=parent)
            raise ToolError(f"{name}: {error.strerror}") from error
        finally:
            os.close(parent)

    def _open_parent(self, real: str) -> int:
        """Open the folder of a resolved path; the caller must close the descriptor."""
        if self.folder_of(real) is None:
            raise ToolError(f"expected a file inside {self}, got {real!r}")
        at = os.open("/", _STEP)
        try:
            for part in Path(real).parts[1:-1]:
                # O_NOFOLLOW covers only the last component, so each one is opened separately.
                deeper = os.open(part, _STEP, dir_fd=at)
                os.close(at)
                at = deeper
        except OSError as error:
            os.close(at)
            raise ToolError(f"{self.shown(real)}: {error.strerror}") from error
        return at

    def __str__(self) -> str:
        shown = ", ".join(str(path) for path in self.paths[:10])
        return shown if len(self.paths) <= 10 else f"{shown} and {len(self.paths) - 10} more"


def path_of_uri(uri: str) -> str | None:
    """Return the resolved path of a ``file`` URI; ``None`` for other URIs."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in path or not path.startswith("/"):
        return None
    return os.path.realpath(path)
