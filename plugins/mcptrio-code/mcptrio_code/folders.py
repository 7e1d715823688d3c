"""The allowed folders, and access to the files in them.

The tools and sessions use them in worker threads. A path is resolved, then checked, and then opened component by
component without following symbolic links, so that the checked file is the one that is opened.
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

__all__ = ["NO_FOLDER", "CodeFolders", "SourceText", "path_of_uri"]

NO_FOLDER: Final = 'no folder is allowed: set folders = ["/absolute/path"] in [plugins.code] of mcptrio.toml'
"""The warning at the start, and the error of each call, if no folder is configured."""

_TRAVERSE_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_PATH_CHARS: Final = 4096
_BOM: Final = "\ufeff"


@frozen
class SourceText:
    """The content of a file when it was read."""

    data: bytes = field(repr=False)
    text: str = field(repr=False)
    """The text without the byte order mark."""
    signature: tuple[int, int]
    """The time of the last change in nanoseconds, and the size in bytes."""

    def encode(self, text: str) -> bytes:
        """Encode a new text for this file: with a byte order mark if the file has one."""
        return ((_BOM if self.data.startswith(_BOM.encode()) else "") + text).encode()


@frozen
class CodeFolders:
    """The allowed folders.

    Attributes:
        paths: The folders, absolute and normalized.
        max_file_bytes: Maximum size of a file that is read.
    """

    paths: tuple[Path, ...]
    max_file_bytes: int

    def resolve(self, path: str) -> str:
        """Return the absolute path of a file, with all symbolic links resolved.

        Args:
            path: The path of the file, absolute or relative to one of the folders.

        Raises:
            ToolError: The path is outside the folders, or the file does not exist.
        """
        if not self.paths:
            raise ToolError(NO_FOLDER)
        if not path or "\0" in path or len(path) > _MAX_PATH_CHARS:
            raise ToolError(f"path: expected the path of a file, got {path[:100]!r}")
        try:
            candidates = [os.path.realpath(folder / os.path.expanduser(path)) for folder in self.paths]
        except UnicodeEncodeError:
            raise ToolError("path: expected a path without lone surrogates") from None
        allowed = [each for each in candidates if self.folder_of(each) is not None]
        if not allowed:
            raise ToolError(f"path: expected a file inside {self}, got {path!r}")
        existing = next((each for each in allowed if os.path.lexists(each)), None)
        if existing is None:
            raise ToolError(f"path: {path!r} does not exist in {self}")
        return existing

    def folder_of(self, real: str) -> str | None:
        """Return the resolved path of the innermost folder that contains a resolved path; ``None`` if it is outside."""
        resolved = [os.path.realpath(folder) for folder in self.paths]
        return max((each for each in resolved if Path(real).is_relative_to(each)), key=len, default=None)

    def display_path(self, real: str) -> str:
        """Return a path as the tools show it and accept it: relative to the first folder if the folder contains it."""
        if self.paths:
            first = os.path.realpath(self.paths[0])
            if Path(real).is_relative_to(first):
                return os.path.relpath(real, first)
        return real

    def read(self, real: str) -> SourceText:
        """Read a file by its resolved path.

        Raises:
            ToolError: The path is outside the folders, or the file is not regular, too large, or not UTF-8.
        """
        name = self.display_path(real)
        parent = self._open_parent(real)
        try:
            descriptor = os.open(os.path.basename(real), _READ_FLAGS, dir_fd=parent)
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
        name = self.display_path(real)
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
        """Open the folder that contains a resolved path. The caller must close the descriptor."""
        if self.folder_of(real) is None:
            raise ToolError(f"expected a file inside {self}, got {real!r}")
        directory = os.open("/", _TRAVERSE_FLAGS)
        try:
            for part in Path(real).parts[1:-1]:
                # O_NOFOLLOW applies only to the last component, so each one is opened separately.
                child = os.open(part, _TRAVERSE_FLAGS, dir_fd=directory)
                os.close(directory)
                directory = child
        except OSError as error:
            os.close(directory)
            raise ToolError(f"{self.display_path(real)}: {error.strerror}") from error
        return directory

    def __str__(self) -> str:
        names = ", ".join(str(path) for path in self.paths[:10])
        return names if len(self.paths) <= 10 else f"{names} and {len(self.paths) - 10} more"


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
