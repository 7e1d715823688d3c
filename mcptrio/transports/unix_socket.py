"""A listening Unix socket at a path.

:mod:`mcptrio.transports.sockets` uses it. The socket is bound in a private directory next to the path, gets its
permissions, starts to listen, and is then linked to the path. Therefore no client can connect before the permissions
are set, and when the path appears, the socket listens. Nothing but stale sockets and the process's own socket is
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

_MAX_ATTEMPTS = 10
"""Attempts to link the socket while other processes change the same path."""
_BUSY = (errno.EAGAIN, errno.EINPROGRESS)
# The errors of a file system without hard links.
_LINK_UNSUPPORTED = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP)


@frozen(kw_only=True, eq=False)
class UnixSocket:
    """A listening Unix socket. Made by :meth:`listen`."""

    listener: socket.socket
    """The non-blocking socket; close it after :meth:`remove`."""
    path: Path
    """The absolute path."""
    identity: tuple[int, int] | None
    """Device and inode of the socket, which identify it at the path."""

    @classmethod
    def listen(cls, written: str, *, backlog: int, mode: int) -> UnixSocket:
        """Bind a socket, listen on it and link it to the path.

        Args:
            written: The path that the operator has configured.
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
            raise OSError(f"expected a path of at most {MAX_PATH_BYTES} bytes, got {size}")
        # A private directory protects the socket until it has its permissions. The umask would apply to all threads.
        private = Path(tempfile.mkdtemp(prefix=".", dir=path.parent))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            private_path = private / path.name
            _bind(sock, private_path)
            private_path.chmod(mode)
            sock.listen(backlog)
            sock.setblocking(False)
            identity = _identity(private_path)
            _publish(private_path, path)
        except OSError:
            sock.close()
            raise
        finally:
            shutil.rmtree(private, ignore_errors=True)
        return cls(listener=sock, path=path, identity=identity)

    def remove(self) -> None:
        """Remove the path if it still leads to this socket. Does not raise.

        Call this before closing the socket: while it is open, its inode number is not reused.
        """
        if self.identity == _identity(self.path):
            try:
                self.path.unlink()
            except OSError:
                pass  # for example a read-only directory; the next server replaces the stale socket


def _bind(sock: socket.socket, private_path: Path) -> None:
    if len(os.fsencode(private_path)) <= MAX_PATH_BYTES:
        sock.bind(os.fspath(private_path))
        return
    # The path in the private directory is too long. On Linux, /proc offers a shorter name.
    directory = os.open(private_path.parent, os.O_RDONLY)
    try:
        sock.bind(f"/proc/self/fd/{directory}/{private_path.name}")
    finally:
        os.close(directory)


def _publish(private_path: Path, path: Path) -> None:
    """Link the socket to its path, unless something is there that must not be removed."""
    for _ in range(_MAX_ATTEMPTS):
        try:
            os.link(private_path, path)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _LINK_UNSUPPORTED:
                raise
            # A rename replaces an existing file, so the path must not exist.
            if not os.path.lexists(path):
                private_path.rename(path)
                return
        else:
            return
        stale_identity = _identity(path)
        _require_stale(path)
        _remove_stale(path, stale_identity, private_path.with_name(private_path.name + "~"))
    raise OSError("other processes keep creating and removing sockets there")


def _remove_stale(path: Path, stale_identity: tuple[int, int] | None, aside: Path) -> None:
    try:
        # Renamed before it is removed, because only then is it certain that this is the socket that was found stale.
        path.rename(aside)
    except FileNotFoundError:
        return
    if _identity(aside) != stale_identity:
        # Another process has published its socket meanwhile, so it is put back.
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
    # If the connection is refused, the process that created the socket has exited without removing it.
    if code in (errno.ECONNREFUSED, errno.ENOENT):
        return
    if code == 0 or code in _BUSY:
        raise OSError(errno.EADDRINUSE, "another process listens there")
    raise OSError(code, f"a socket exists, and it is unknown whether a process listens on it: {os.strerror(code)}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
