"""Parses listening addresses and opens the sockets.

Servers of streams, the HTTP engine and the supervisor of workers use it. An address is ``host:port`` (port 0 selects a
free port), ``[v6]:port``, ``unix:/path``, ``fd:N`` for an inherited listening socket with descriptor N, or
``fd:systemd`` for all sockets that systemd has passed.

Source: sd_listen_fds(3); RFC 3986 section 3.2.2 (brackets around IPv6).
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TypeAlias

import trio
from attrs import field, frozen

from mcptrio.transports.unix_socket import UnixSocket

__all__ = ["ListeningSockets", "keep_alive", "listen", "split_host"]

_UNIX = "unix:"
_DESCRIPTOR = "fd:"
_SYSTEMD = "systemd"
_FIRST_PASSED = 3
"""The first descriptor that systemd passes (SD_LISTEN_FDS_START)."""
_MAX_PASSED_SOCKETS = 256

_FREE_PORTS = 10
"""Attempts to find a port that is free on all addresses of a host."""

# Sixty seconds without data, then four probes 15 s apart: two minutes.
_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))

_Address: TypeAlias = tuple[int, tuple[object, ...]]
"""An address family, and an address of this family."""

# The errors for an address that this machine lacks, usually the IPv6 address of localhost.
_UNAVAILABLE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


@frozen(kw_only=True, eq=False)
class ListeningSockets:
    """Listening sockets, which the caller must close."""

    sockets: tuple[socket.socket, ...]
    """The non-blocking sockets. A duplicate of an inherited socket shares O_NONBLOCK with the original."""
    names: tuple[str, ...]
    """The display name of each socket: ``127.0.0.1:8000``, ``[::1]:8000``, ``unix:/run/mcp.sock``."""
    _unix: UnixSocket | None = field(default=None, alias="unix")

    def close(self) -> None:
        """Close the sockets, and remove the path of a Unix socket if it still leads to this one. Does not raise.

        When this is called, no task may be waiting for a connection. Inherited descriptors stay open: only their
        duplicates are closed.
        """
        if self._unix is not None:
            self._unix.remove()
        for each in self.sockets:
            each.close()


def listen(address: str, *, backlog: int = 1024, unix_mode: int = 0o600) -> ListeningSockets:
    """Listen on an address. This blocks while a host name is looked up; a numeric address does not need that.

    Args:
        address: The address in one of the forms of this module. For a host name, the sockets listen on each of its
            addresses that this machine has, on the same port. IPv6 sockets accept no IPv4 connections.
        backlog: Maximum number of connections that wait to be accepted; the kernel may lower it.
        unix_mode: Permissions of a Unix socket. Processes that may write to it may connect.

    Raises:
        OSError: The address is invalid, cannot be bound or is in use; the path is too long or is not a socket; the
            descriptor is not a listening stream socket. ``errno`` is set if the system refused.
    """
    try:
        if address.startswith(_UNIX):
            unix = UnixSocket.listen(address.removeprefix(_UNIX), backlog=backlog, mode=unix_mode)
            return ListeningSockets(sockets=(unix.listener,), names=(f"{_UNIX}{unix.path}",), unix=unix)
        if address.startswith(_DESCRIPTOR):
            return _inherit(address.removeprefix(_DESCRIPTOR))
        host, port = split_host(address)
        return _listen_tcp(host, port, backlog)
    except OSError as error:
        refused = OSError(f"cannot listen on {address}: {error.strerror or error}")
        refused.errno = error.errno
        raise refused from error


def split_host(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        OSError: The address has neither form.
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
    """Enable TCP keepalives, which detect a vanished peer of an idle connection after about two minutes.

    Raises:
        OSError: The peer has already disconnected.
    """
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES:
        if hasattr(socket, option):
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _listen_tcp(host: str, port: int, backlog: int) -> ListeningSockets:
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(f"no address for host {host!r}: {error.strerror}") from error
    except UnicodeError as error:
        raise OSError(f"{host!r} is not a host name") from error
    addresses: list[_Address] = list(dict.fromkeys((family, address) for family, _, _, _, address in infos))
    attempt = 1
    while True:
        try:
            sockets = _bind_all(addresses, backlog)
        except OSError as error:
            # A port that is free on the first address may be in use on another one.
            if port != 0 or error.errno != errno.EADDRINUSE or attempt == _FREE_PORTS:
                raise
            attempt += 1
        else:
            return ListeningSockets(sockets=sockets, names=tuple(_name(each) for each in sockets))


def _bind_all(addresses: list[_Address], backlog: int) -> tuple[socket.socket, ...]:
    bound: list[socket.socket] = []
    missing: OSError | None = None
    with ExitStack() as undo:
        for family, (host, port, *rest) in addresses:
            port = port or (bound[0].getsockname()[1] if bound else 0)
            try:
                bound.append(undo.enter_context(_bind(family, (host, port, *rest), backlog)))
            except OSError as error:
                if error.errno not in _UNAVAILABLE:
                    raise
                missing = error
        if missing is not None and not bound:
            raise missing
        undo.pop_all()
    return tuple(bound)


def _bind(family: int, address: tuple[object, ...], backlog: int) -> socket.socket:
    with ExitStack() as undo:
        sock = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        if sys.platform == "win32":
            # SO_REUSEADDR on Windows would let another process take over the port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            # Otherwise a restart would fail for a minute, while old connections are in TIME_WAIT.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Otherwise [::] would accept IPv4 connections too, for which there may be a separate address.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(backlog)
        sock.setblocking(False)
        undo.pop_all()
    return sock


def _inherit(text: str) -> ListeningSockets:
    numbers = _passed_descriptors(os.environ) if text == _SYSTEMD else [_number(text, "descriptor", maximum=2**31 - 1)]
    with ExitStack() as undo:
        sockets = tuple([undo.enter_context(_duplicate(number)) for number in numbers])
        undo.pop_all()
    return ListeningSockets(sockets=sockets, names=tuple(_name(each) for each in sockets))


def _passed_descriptors(environment: Mapping[str, str]) -> list[int]:
    """Return the descriptors that systemd passed to this process."""
    pid, count = environment.get("LISTEN_PID"), environment.get("LISTEN_FDS")
    if pid is None or count is None:
        raise OSError("expected sockets from systemd, but LISTEN_PID and LISTEN_FDS are not set")
    # Child processes inherit the variables, so these may be meant for the parent of this process.
    if pid != str(os.getpid()):
        raise OSError(f"LISTEN_PID is {pid}, but this process is {os.getpid()}: the sockets are for another process")
    passed = _number(count, "LISTEN_FDS", maximum=_MAX_PASSED_SOCKETS)
    if not passed:
        raise OSError("expected sockets from systemd, got LISTEN_FDS=0; start the service through its .socket unit")
    return list(range(_FIRST_PASSED, _FIRST_PASSED + passed))


def _number(text: str, what: str, *, maximum: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= maximum):
        raise OSError(f"expected a number up to {maximum} as {what}, got {text!r}")
    return int(text)


def _duplicate(number: int) -> socket.socket:
    try:
        # A child process that inherits the descriptor would keep the port in use after this process has ended.
        os.set_inheritable(number, False)
        duplicate = os.dup(number)
    except OSError as error:
        raise OSError(error.errno, f"descriptor {number}: {error.strerror}") from error
    try:
        # A duplicate, so that other owners of the inherited descriptor may close theirs.
        sock = socket.socket(fileno=duplicate)
    except OSError as error:
        os.close(duplicate)
        raise OSError(error.errno, f"descriptor {number} is not a socket") from error
    with ExitStack() as undo:
        undo.enter_context(sock)
        if sock.type != socket.SOCK_STREAM:
            raise OSError(f"descriptor {number} is a socket, but not a stream")
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise OSError(f"descriptor {number} is a stream socket, but does not listen")
        sock.setblocking(False)
        undo.pop_all()
    return sock


def _name(each: socket.socket) -> str:
    address = each.getsockname()
    if isinstance(address, tuple):
        host, port = address[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(address, bytes):  # an abstract name of Linux, which starts with a zero byte
        address = "@" + os.fsdecode(address[1:])
    return f"{_UNIX}{address}"
