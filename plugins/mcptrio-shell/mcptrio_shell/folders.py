"""The folders in which commands may run.

Asked by the policy, in a worker thread. The one rule: a path is resolved first and allowed afterwards, and what is
allowed is opened step by step without following a symbolic link, so that what was checked is what is used.

Source: openat2(2), ``RESOLVE_NO_SYMLINKS``, which the standard library does not offer.
"""

from __future__ import annotations

import os
from pathlib import Path

from attrs import frozen

from mcptrio import ToolError

__all__ = ["Folders"]

_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class Folders:
    """The allowed folders, absolute."""

    paths: tuple[Path, ...]

    def resolve(self, path: str) -> str:
        """The absolute path of a folder to run in, with every symbolic link resolved.

        Args:
            path: absolute, or relative to the first folder.

        Raises:
            ToolError: it is outside, or no folder.
        """
        if not self.paths:
            raise ToolError('no folder is allowed: set folders = ["/absolute/path"] in [plugins.shell] of mcptrio.toml')
        if "\0" in path or not path.isprintable():
            raise ToolError(f"cwd: expected a path without control characters, got {path!r}")
        real = os.path.realpath(self.paths[0] / os.path.expanduser(path))
        if not self.contains(real):
            raise ToolError(f"cwd: expected a folder inside {self}, got {path!r}")
        if not os.path.isdir(real):
            raise ToolError(f"cwd: expected a folder, got {path!r}, which is none")
        return real

    def contains(self, real: str) -> bool:
        """Whether a resolved path is in one of the folders, or is one."""
        return any(Path(real).is_relative_to(os.path.realpath(folder)) for folder in self.paths)

    def holds(self, path: str, cwd: str) -> bool:
        """Whether a path lies inside, as a program that runs in ``cwd`` will take it."""
        return "\0" not in path and self.contains(os.path.realpath(os.path.join(cwd, path)))

    def __str__(self) -> str:
        shown = ", ".join(str(path) for path in self.paths[:10])
        return shown if len(self.paths) <= 10 else f"{shown} and {len(self.paths) - 10} more"

    @staticmethod
    def open(real: str) -> int:
        """A descriptor of a resolved folder; the caller closes it.

        Raises:
            ToolError: it has gone, or a part of it has become a symbolic link since it was resolved.
        """
        at = os.open("/", _STEP)
        try:
            for name in Path(real).parts[1:]:
                deeper = os.open(name, _STEP, dir_fd=at)
                os.close(at)
                at = deeper
        except OSError as error:
            os.close(at)
            raise ToolError(f"cwd: expected a folder, got {real!r}: {error.strerror}") from error
        return at
