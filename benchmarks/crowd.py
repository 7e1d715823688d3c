"""Many clients at once: idle handshake sessions, and open event streams.

A waiting client costs this process almost nothing, so thousands can be open on the server's machine.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from calls import MEMO, MODERN, Peer
from connections import Connection, open_session, unexpected

__all__ = ["allow", "open_sessions", "open_streams"]

_ACKNOWLEDGED = b"notifications/subscriptions/acknowledged"
"""The method; the event is small enough to come in one piece."""
_AT_ONCE = 32
"""Requests that are sent before their answers are read. Less than any listener's backlog."""
_SPARE = 200
"""Descriptors for everything else."""


def allow(count: int) -> None:
    """Raise the limit of descriptors for this process and those that it starts.

    Raises:
        RuntimeError: The system forbids it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + _SPARE
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise RuntimeError(f"expected {needed} descriptors for a process, the limit is {hard} (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def open_sessions(port: int, count: int, opened: Callable[[int], None] | None = None) -> list[Peer]:
    """Open sessions that stay idle after the handshake. They share a connection.

    Args:
        opened: called with the number of sessions after each.
    """
    connection = Connection(port)
    sessions = []
    try:
        for number in range(1, count + 1):
            sessions.append(open_session(connection, port))
            if opened is not None:
                opened(number)
    finally:
        connection.close()
    return sessions


@contextmanager
def open_streams(port: int, count: int, opened: Callable[[int], None] | None = None) -> Iterator[list[Connection]]:
    """Open streams of ``subscriptions/listen`` on separate connections, and wait until all are acknowledged.

    Args:
        opened: called with the number of streams after each.
    """
    request = Peer(port, MODERN).listen()
    streams: list[Connection] = []
    try:
        while len(streams) < count:
            requested = []
            for number in range(min(_AT_ONCE, count - len(streams))):
                # mcptrio gives one address at most half of its connections.
                requested.append(Connection(port, (request,), source=f"127.0.0.{2 + number % 4}"))
                streams.append(requested[-1])
                requested[-1].send()
            for number, stream in enumerate(requested, len(streams) - len(requested) + 1):
                answer = stream.read_until(_ACKNOWLEDGED)
                if MEMO.encode() not in answer:
                    raise unexpected(f"a stream of changes of {MEMO}", answer)
                if opened is not None:
                    opened(number)
        yield streams
    finally:
        for stream in streams:
            stream.close()
