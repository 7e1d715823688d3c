"""The folders in which commands may run.

The policy resolves and checks a working folder in a worker thread. The process then opens the resolved path component
by component without following symbolic links, so that the command runs in the folder that was checked.

Source: openat2(2), ``RESOLVE_NO_SYMLINKS``, which the standard library does not offer.
"""

from __future__ import annotations

import os
from pathlib import Path

from attrs import frozen

from mcptrio import ToolError

__all__ = ["Folders"]

_OPEN_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class Folders:
    """The allowed folders, as absolute paths."""

    paths: tuple[Path, ...]

    def resolve(self, path: str) -> str:
        """Return the absolute path of a working folder, with all symbolic links resolved.

        Args:
            path: Absolute, or relative to the first folder.

        Raises:
            ToolError: The path is outside the folders, or is not a folder.
        """
        if not self.paths:
            raise ToolError('no folder is allowed: set folders = ["/absolute/path"] in [plugins.shell] of mcptrio.toml')
        if "\0" in path or not path.isprintable():
            raise ToolError(f"cwd: expected a path without control characters, got {path!r}")
        real = os.path.realpath(self.paths[0] / os.path.expanduser(path))
        if not self.contains(real):
            raise ToolError(f"cwd: expected a folder inside {self}, got {path!r}")
        if not os.path.isdir(real):
            raise ToolError(f"cwd: expected a folder, got {path!r}, which is not a folder")
        return real

    def contains(self, real: str) -> bool:
        """Return whether a resolved path is one of the folders or inside one."""
        return any(Path(real).is_relative_to(os.path.realpath(folder)) for folder in self.paths)

    def contains_unresolved(self, path: str, cwd: str) -> bool:
        """Return whether a path, resolved as a program that runs in ``cwd`` would resolve it, is inside the folders."""
        return "\0" not in path and self.contains(os.path.realpath(os.path.join(cwd, path)))

    def __str__(self) -> str:
        names = ", ".join(str(path) for path in self.paths[:10])
        return names if len(self.paths) <= 10 else f"{names} and {len(self.paths) - 10} more"

    @staticmethod
    def open(real: str) -> int:
        """Open a resolved folder and return its descriptor, which the caller must close.

        Raises:
            ToolError: The folder was removed, or a component has become a symbolic link.
        """
        descriptor = os.open("/", _OPEN_FLAGS)
        try:
            for name in Path(real).parts[1:]:
                # O_NOFOLLOW covers only the last component, so each one is opened separately.
                child = os.open(name, _OPEN_FLAGS, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = child
        except OSError as error:
            os.close(descriptor)
            raise ToolError(f"cwd: expected a folder, got {real!r}: {error.strerror}") from error
        return descriptor
