"""What an address means, and listening on it.

Called by whatever accepts connections: servers of streams, the HTTP engine, and who hands sockets to workers. An
address is ``host:port`` (port 0 takes a free one), ``[v6]:port``, ``unix:/path``, ``fd:N`` for a listening socket that
was inherited as descriptor N, or ``fd:systemd`` for all those that systemd passed.
The one rule: what is listened on is what the address says: no other host, no other family, nobody else's descriptor.

Source: sd_listen_fds(3); RFC 3986 section 3.2.2 (brackets around IPv6).
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Mapping
from typing import TypeAlias

import trio
from attrs import field, frozen

from mcptrio.transports.unix_socket import UnixSocket

__all__ = ["ListeningSockets", "keep_alive", "listen", "split_host"]

_UNIX = "unix:"
_DESCRIPTOR = "fd:"
_SYSTEMD = "systemd"
_FIRST_PASSED = 3
"""The first descriptor that systemd passes."""
_MAX_PASSED_SOCKETS = 256

_FREE_PORTS = 10
"""How many free ports are tried where one is to be free on several addresses."""

_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))

_Where: TypeAlias = tuple[int, tuple[object, ...]]
"""A family, and an address of it."""

_NOT_HERE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""One of the addresses of a name may be of a family this machine does not have: IPv6 of ``localhost``, mostly."""


@frozen(kw_only=True, eq=False)
class ListeningSockets:
    """Sockets that listen, to be closed by who asked for them."""

    sockets: tuple[socket.socket, ...]
    """Non-blocking. A descriptor that was inherited is there as a duplicate; O_NONBLOCK is set on what they share."""
    names: tuple[str, ...]
    """What is printed for each of them: ``127.0.0.1:8000``, ``[::1]:8000``, ``unix:/run/mcp.sock``."""
    _unix: UnixSocket | None = field(default=None, alias="unix")

    def close(self) -> None:
        """Close the sockets, and remove the path of a Unix socket if it still leads to ours. Never raises.

        Nobody may be waiting for a connection any more. What was inherited stays open under its own number.
        """
        if self._unix is not None:
            self._unix.remove()
        for each in self.sockets:
            each.close()


def listen(address: str, *, backlog: int = 1024, unix_mode: int = 0o600) -> ListeningSockets:
    """Listen on an address. Looks names up, so give numbers where that could take long.

    Args:
        address: as the module says. A host with several addresses listens on all of them that this machine has, on the
            same port; IPv6 takes no IPv4 connections.
        backlog: connections that wait to be accepted, at most; the kernel has a limit of its own.
        unix_mode: the permissions of a Unix socket. Who may write to it may connect.

    Raises:
        OSError: naming the address and what is wrong: not an address; cannot be bound; a path too long; something that
            is no socket, or a socket on which somebody listens, is in the way; a descriptor that is no listening stream
            socket. ``errno`` is the system's where it was the system that refused.
    """
    try:
        if address.startswith(_UNIX):
            return _listen_unix(address.removeprefix(_UNIX), backlog, unix_mode)
        if address.startswith(_DESCRIPTOR):
            return _inherit(address.removeprefix(_DESCRIPTOR))
        host, port = split_host(address)
        return _listen_tcp(host, port, backlog)
    except OSError as error:
        refused = OSError(f"cannot listen on {address}: {error.strerror or error}")
        refused.errno = error.errno
        raise refused from error


def split_host(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        OSError: it is neither.
    """
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    if not colon or not bare or bracketed != any(mark in host for mark in ":[]"):
        raise OSError("expected host:port, [v6]:port, unix:/path or fd:N")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise OSError(f"expected a port from 0 to 65535, got {port!r}")
    return bare, int(port)


def keep_alive(stream: trio.SocketStream) -> None:
    """Have the system find out, after about two minutes, that the peer of a silent TCP connection has gone.

    Raises:
        OSError: it has gone already.
    """
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES:
        if hasattr(socket, option):
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _listen_tcp(host: str, port: int, backlog: int) -> ListeningSockets:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(f"no address for host {host!r}: {error.strerror}") from error
    except UnicodeError as error:
        raise OSError(f"{host!r} is no host name") from error
    addresses: list[_Where] = list(dict.fromkeys((family, where) for family, _, _, _, where in found))
    attempt = 1
    while True:
        try:
            sockets = _bind_all(addresses, backlog)
        except OSError as error:
            # The port that was free on the first address may be taken on another one.
            if port != 0 or error.errno != errno.EADDRINUSE or attempt == _FREE_PORTS:
                raise
            attempt += 1
        else:
            return ListeningSockets(sockets=sockets, names=tuple(_name(each) for each in sockets))


def _bind_all(addresses: list[_Where], backlog: int) -> tuple[socket.socket, ...]:
    bound: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, (host, port, *rest) in addresses:
            port = port or (bound[0].getsockname()[1] if bound else 0)
            try:
                bound.append(_bind(family, (host, port, *rest), backlog))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
        if missing is not None and not bound:
            raise missing
    except OSError:
        for each in bound:
            each.close()
        raise
    return tuple(bound)


def _bind(family: int, where: tuple[object, ...], backlog: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            # Its SO_REUSEADDR would let another process take the port over.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(where)
        made.listen(backlog)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _listen_unix(written: str, backlog: int, mode: int) -> ListeningSockets:
    made = UnixSocket.listen(written, backlog=backlog, mode=mode)
    return ListeningSockets(sockets=(made.listener,), names=(f"{_UNIX}{made.path}",), unix=made)


def _inherit(written: str) -> ListeningSockets:
    numbers = _passed(os.environ) if written == _SYSTEMD else [_number(written, "descriptor", most=2**31 - 1)]
    sockets: list[socket.socket] = []
    try:
        sockets.extend(map(_duplicate, numbers))
    except OSError:
        for each in sockets:
            each.close()
        raise
    return ListeningSockets(sockets=tuple(sockets), names=tuple(_name(each) for each in sockets))


def _passed(environment: Mapping[str, str]) -> list[int]:
    """The descriptors that systemd passed to this process, and not to one that started it."""
    pid, count = environment.get("LISTEN_PID"), environment.get("LISTEN_FDS")
    if pid is None or count is None:
        raise OSError("systemd has passed no sockets: LISTEN_PID and LISTEN_FDS are not set")
    if pid != str(os.getpid()):
        raise OSError(f"LISTEN_PID is {pid}, and this process is {os.getpid()}: the sockets were for another process")
    passed = _number(count, "LISTEN_FDS", most=_MAX_PASSED_SOCKETS)
    if not passed:
        raise OSError("systemd has passed no sockets: LISTEN_FDS is 0")
    return list(range(_FIRST_PASSED, _FIRST_PASSED + passed))


def _number(written: str, what: str, *, most: int) -> int:
    if not (written.isascii() and written.isdecimal() and len(written) <= 10 and int(written) <= most):
        raise OSError(f"expected a number up to {most} as {what}, got {written!r}")
    return int(written)


def _duplicate(number: int) -> socket.socket:
    """A socket of our own for an inherited descriptor, so that whoever else has it may close it too."""
    try:
        # None of ours; a process we start would keep the port.
        os.set_inheritable(number, False)
        own = os.dup(number)
    except OSError as error:
        raise OSError(error.errno, f"descriptor {number}: {error.strerror}") from error
    try:
        made = socket.socket(fileno=own)
    except OSError as error:
        os.close(own)
        raise OSError(error.errno, f"descriptor {number} is no socket") from error
    if made.type != socket.SOCK_STREAM:
        made.close()
        raise OSError(f"descriptor {number} is a socket, but no stream")
    if not made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        made.close()
        raise OSError(f"descriptor {number} is a stream socket, but does not listen")
    made.setblocking(False)
    return made


def _name(each: socket.socket) -> str:
    where = each.getsockname()
    if isinstance(where, tuple):
        host, port = where[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(where, bytes):  # Linux's abstract names begin with a zero
        where = "@" + os.fsdecode(where[1:])
    return f"{_UNIX}{where}"
