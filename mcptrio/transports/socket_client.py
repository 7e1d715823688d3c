"""Connects a client to a server on a socket: ``tcp://host:port`` or ``unix:/path``.

:mod:`mcptrio.connecting.connect` uses it. Its errors have ``delivered=False``, because nothing was sent on a connection
that could not be made.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from mcptrio.errors import RequestFailed
from mcptrio.protocol.limits import CLIENT_DEFAULT, MessageLimits
from mcptrio.transports.sockets import keep_alive, split_host
from mcptrio.transports.stream import StreamChannel

__all__ = ["check_socket_address", "open_socket_channel"]

_TCP = "tcp://"
_UNIX = "unix:"

_CLOSE_TIMEOUT = 1.0


@asynccontextmanager
async def open_socket_channel(
    address: str, *, connect_timeout: float = 30.0, limits: MessageLimits = CLIENT_DEFAULT
) -> AsyncIterator[StreamChannel]:
    """Connect to a server on a socket inside the context.

    Args:
        address: ``tcp://host:port`` or ``unix:/path``.
        connect_timeout: Seconds to look the address up and connect.
        limits: Limits of one message.

    Raises:
        RequestFailed: The connection failed; the message has the reason.
        ValueError: The address is invalid.
    """
    check_socket_address(address)
    stream = None
    with trio.move_on_after(connect_timeout):
        stream = await _connect(address)
    if stream is None:
        raise RequestFailed(f"no connection to {address} within {connect_timeout:g} seconds", delivered=False)
    channel = StreamChannel(stream, name=address, limits=limits, answers=True)
    try:
        yield channel
    finally:
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await channel.aclose()


def check_socket_address(address: str) -> None:
    """Raise ValueError unless the address is ``tcp://host:port`` or ``unix:/path``."""
    if address.startswith(_UNIX):
        if not address.removeprefix(_UNIX) or "\0" in address:
            raise ValueError("expected the path of a socket after unix:")
    elif address.startswith(_TCP):
        try:
            _, port = split_host(address.removeprefix(_TCP))
        except OSError as error:
            raise ValueError(f"expected tcp://host:port, got {address!r}") from error
        if not port:
            raise ValueError("expected a port from 1 to 65535, got 0")
    else:
        raise ValueError(f"expected tcp://host:port or unix:/path, got {address!r}")


async def _connect(address: str) -> trio.SocketStream:
    try:
        if address.startswith(_UNIX):
            return await trio.open_unix_socket(address.removeprefix(_UNIX))
        stream = await trio.open_tcp_stream(*split_host(address.removeprefix(_TCP)))
        keep_alive(stream)
    except RuntimeError as error:  # raised by Trio on platforms without Unix sockets
        raise RequestFailed(f"cannot connect to {address}: {error}", delivered=False) from error
    except OSError as error:
        raise RequestFailed(f"cannot connect to {address}: {_reason(error)}", delivered=False) from error
    return stream


def _reason(error: BaseException) -> str:
    """Return the system's description of an error; if several addresses failed, that of the last."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    if isinstance(cause, OSError):
        error = cause
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        # Not Trio's message, which repeats the address.
        return os.strerror(error.errno)
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
