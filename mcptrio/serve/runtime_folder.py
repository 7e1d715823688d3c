"""The folders in which the servers of one user have their control sockets.

:mod:`mcptrio.serve.control_socket` makes a socket in the first folder that can be used, and
:mod:`mcptrio.serve.process_status` reads all of them, because two processes of a user may have different environments.

Source: XDG Base Directory Specification, "XDG_RUNTIME_DIR"; systemd.exec(5), "RuntimeDirectory=".
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["make_runtime_folder", "runtime_folders"]


def runtime_folders() -> list[Path]:
    """Return the folders that exist and that no other user can write to or read."""
    return [folder for folder in _candidates() if _is_private(folder)]


def make_runtime_folder() -> Path:
    """Return the first usable folder, after creating it.

    Raises:
        OSError: None of them can be used.
    """
    problem = OSError("no folder is known")
    for folder in _candidates():
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            problem = error
            continue
        if _is_private(folder):
            return folder
        problem = PermissionError(f"{folder}: expected a folder with mode 0700 that belongs to this user")
    raise problem


def _candidates() -> Iterator[Path]:
    user = os.getuid()
    # systemd sets the first variable in a service with RuntimeDirectory=, and the second one in a login session. The
    # third folder is that of the login session for processes without its environment, such as those of cron.
    parents = (os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0], os.environ.get("XDG_RUNTIME_DIR", ""))
    seen: set[str] = set()
    for parent in (*parents, f"/run/user/{user}"):
        # After sudo or su, the variable may name the folder of another user.
        if parent not in seen and os.path.isabs(parent) and _owner(parent) == user:
            seen.add(parent)
            yield Path(parent, "mcptrio")
    yield Path(tempfile.gettempdir(), f"mcptrio-{user}")


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _is_private(folder: Path) -> bool:
    try:
        # Not stat(): in the folder for temporary files, another user could create a link of this name.
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
