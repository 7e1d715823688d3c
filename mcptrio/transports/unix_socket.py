"""A listening Unix socket at a path.

:mod:`mcptrio.transports.sockets` uses it. The socket is bound in a private directory next to the path, gets its
permissions, starts to listen, and is then linked to the path. No client can therefore connect before the permissions
are set, and other processes see the path only once it listens. Only stale sockets and the process's own socket are ever
removed.

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
"""Bytes of a path: the size of ``sun_path`` without the terminating zero."""

_ROUNDS = 10
"""Attempts if other processes change the same path meanwhile."""
_BUSY = (errno.EAGAIN, errno.EINPROGRESS)
# A file system without hard links. A rename would replace an existing file, so _publish() looks for one first.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP)


@frozen(kw_only=True, eq=False)
class UnixSocket:
    """A listening Unix socket. Made by :meth:`listen`."""

    listener: socket.socket
    """The non-blocking socket; close it after :meth:`remove`."""
    path: Path
    """The absolute path."""
    identity: tuple[int, int] | None
    """Device and inode, which identify the socket at the path."""

    @classmethod
    def listen(cls, written: str, *, backlog: int, mode: int) -> UnixSocket:
        """Bind a socket, listen on it and link it to the path.

        Args:
            written: The path as configured.
            backlog: Maximum number of connections that wait to be accepted.
            mode: Permissions of the socket. Processes that may write to it may connect.

        Raises:
            OSError: The path is invalid, is not a socket, or another process listens on it.
        """
        if sys.platform == "win32":
            raise OSError("there are no Unix sockets on this platform")
        if not written or "\0" in written or written.startswith("@"):
            raise OSError("expected the path of a socket after 'unix:'")
        # Absolute, so that remove() finds it after a change of the working directory.
        path = Path(os.path.abspath(written))
        if (size := len(os.fsencode(path))) > MAX_PATH_BYTES:
            raise OSError(f"the path has {size} bytes, the maximum is {MAX_PATH_BYTES}")
        # Not the umask: all threads share it.
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
        """Remove the path if it still leads to this socket. Does not raise.

        Call this before closing the socket: while it is open, its inode number is not reused.
        """
        if self.identity == _identity(self.path):
            try:
                self.path.unlink()
            except OSError:
                pass  # for example a read-only directory; the next server replaces the stale socket


def _bind(made: socket.socket, here: Path) -> None:
    if len(os.fsencode(here)) <= MAX_PATH_BYTES:
        made.bind(os.fspath(here))
        return
    # The path fits, but not with the private directory. On Linux, /proc offers a shorter name.
    directory = os.open(here.parent, os.O_RDONLY)
    try:
        made.bind(f"/proc/self/fd/{directory}/{here.name}")
    finally:
        os.close(directory)


def _publish(here: Path, path: Path) -> None:
    """Link the socket to its path, unless something is there that must not be removed."""
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
    raise OSError("other processes keep creating and removing sockets there")


def _take_away(path: Path, judged: tuple[int, int] | None, aside: Path) -> None:
    try:
        # Renamed before it is removed: only then is it certain that it is the socket that was found stale.
        path.rename(aside)
    except FileNotFoundError:
        return
    if _identity(aside) != judged:
        # Another process has published its socket meanwhile: put it back.
        os.link(aside, path)
    aside.unlink()


def _require_stale(path: Path) -> None:
    """Raise OSError if the path is not a socket, or if another process may listen on it."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError("the path exists and is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        code = probe.connect_ex(os.fspath(path))
    # Refused: the process that created the socket has exited without removing it.
    if code in (errno.ECONNREFUSED, errno.ENOENT):
        return
    if code == 0 or code in _BUSY:
        raise OSError(errno.EADDRINUSE, "another process listens there")
    raise OSError(code, f"a socket exists, and it is unknown whether a process listens on it: {os.strerror(code)}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
