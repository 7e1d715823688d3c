"""A Unix socket that listens at a path.

Made by :mod:`mcptrio.transports.sockets`. It is bound in a private directory beside its place, listens there with the
permissions it is to have, and is then linked to where it belongs. So nobody can connect before the permissions are
right, without touching the umask, which all threads share; and another process finds it listening or not at all.
The one rule: nothing is removed that could be somebody else's: only a socket on which nobody listens, and our own.

Source: unix(7); link(2).
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import sys
import tempfile
from pathlib import Path

from attrs import frozen

__all__ = ["MAX_PATH_BYTES", "UnixSocket"]

MAX_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""Bytes of a path: what fits into ``sun_path`` before its zero."""

_ROUNDS = 10
"""How often we start again where somebody else is doing something in the same place."""
_BUSY = (errno.EAGAIN, errno.EINPROGRESS)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP)
"""A file system without hard links. Moving there would replace what is there, so we look first."""


@frozen(kw_only=True, eq=False)
class UnixSocket:
    """Made by :meth:`listen`."""

    listener: socket.socket
    """Non-blocking; to be closed after :meth:`remove`."""
    path: Path
    """Absolute."""
    identity: tuple[int, int] | None
    """Device and inode, by which we know our own."""

    @classmethod
    def listen(cls, written: str, *, backlog: int, mode: int) -> UnixSocket:
        """
        Args:
            mode: who may write to it may connect.

        Raises:
            OSError: no such path is possible; something is there that is no socket, or on which somebody listens.
        """
        if sys.platform == "win32":
            raise OSError("there are no Unix sockets on this platform")
        if not written or "\0" in written or written.startswith("@"):
            raise OSError("expected the path of a socket after 'unix:'")
        path = Path(os.path.abspath(written))  # still right after a change of directory
        if (size := len(os.fsencode(path))) > MAX_PATH_BYTES:
            raise OSError(f"the path has {size} bytes, and {MAX_PATH_BYTES} are possible")
        private = Path(tempfile.mkdtemp(prefix=".", dir=path.parent))
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            here = private / path.name
            _bind(made, here)
            here.chmod(mode)
            made.listen(backlog)
            made.setblocking(False)
            identity = _identity(here)
            _publish(here, path)
        except OSError:
            made.close()
            raise
        finally:
            shutil.rmtree(private, ignore_errors=True)
        return cls(listener=made, path=path, identity=identity)

    def remove(self) -> None:
        """Remove the path, if it still leads to our socket. Never raises.

        Before the socket is closed: as long as it is open, its inode number is not given to another file.
        """
        if self.identity == _identity(self.path):
            try:
                self.path.unlink()
            except OSError:
                pass  # the directory has become read-only, say; the next server finds that nobody listens


def _bind(made: socket.socket, here: Path) -> None:
    if len(os.fsencode(here)) <= MAX_PATH_BYTES:
        made.bind(os.fspath(here))
        return
    # The path itself fits, but not with the private directory. Linux has a shorter name for that.
    directory = os.open(here.parent, os.O_RDONLY)
    try:
        made.bind(f"/proc/self/fd/{directory}/{here.name}")
    finally:
        os.close(directory)


def _publish(here: Path, path: Path) -> None:
    """Link the socket to where it belongs, unless something is there that is not for us to remove."""
    for _ in range(_ROUNDS):
        try:
            os.link(here, path)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if not os.path.lexists(path):
                here.rename(path)
                return
        else:
            return
        judged = _identity(path)
        _require_stale(path)
        _take_away(path, judged, here.with_name(here.name + "~"))
    raise OSError("others keep listening there and leaving again")


def _take_away(path: Path, judged: tuple[int, int] | None, aside: Path) -> None:
    """Remove the socket that was judged to be stale. Renamed first: only then is it certain which one it is."""
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    if _identity(aside) != judged:
        os.link(aside, path)  # somebody was quicker than we, and this is theirs
    aside.unlink()


def _require_stale(path: Path) -> None:
    """
    Raises:
        OSError: somebody may be listening there, or it is no socket.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError("there is something that is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        code = probe.connect_ex(os.fspath(path))
    if code in (errno.ECONNREFUSED, errno.ENOENT):
        return
    if code == 0 or code in _BUSY:
        raise OSError(errno.EADDRINUSE, "somebody listens there")
    raise OSError(code, f"there is a socket, and whether somebody listens cannot be told: {os.strerror(code)}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
