"""Finds the git command, and checks its version.

``GitAccess`` calls it before the first git process. The result is an absolute path, so a repository that is the working
directory cannot provide its own git.
"""

from __future__ import annotations

import os
import re
import shutil

from attrs import frozen

from mcptrio.errors import ToolError

__all__ = ["MIN_VERSION", "GitBinary", "find_git", "read_version"]

MIN_VERSION = (2, 36)
"""The first version with ``git worktree list -z``. Older versions also lack fixes against malicious repositories."""

_VERSION = r"git version (\d+)\.(\d+)"


@frozen(kw_only=True, eq=False, repr=False)
class GitBinary:
    """A git command that is new enough."""

    path: str
    version: tuple[int, int]


def find_git(command: str) -> str:
    """Return the absolute path of the command. Blocks.

    Raises:
        ToolError: The command was not found.
    """
    path = shutil.which(os.path.expanduser(command))
    if path is None:
        raise ToolError(f"the git command {command!r} was not found; install git, or set git in [plugins.git]")
    return os.path.abspath(path)


def read_version(output: str) -> tuple[int, int]:
    """Return the version in the output of ``git version``.

    Raises:
        ToolError: The version is too old, or the command is not git.
    """
    match = re.match(_VERSION, output)
    version = (int(match[1]), int(match[2])) if match else None
    if version is None or version < MIN_VERSION:
        needed = ".".join(map(str, MIN_VERSION))
        raise ToolError(f"expected git {needed} or newer, got {output.strip()[:100]!r}; set git in [plugins.git]")
    return version
