"""Measures the seconds from one change until the last of thousands of streams has received it."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from select import EPOLLIN, epoll

from calls import MODERN, Peer
from connections import WAIT_TIMEOUT, Connection
from crowd import allow, open_streams
from results import Figures
from scale import Scale
from servers import Server

__all__ = ["fan_out", "fanout_row", "measure_fanout", "opening_row"]

_UPDATED = b"notifications/resources/updated"


def fanout_row(streams: int) -> str:
    return f"fan-out to {streams:,} streams, s"


def opening_row(streams: int) -> str:
    return f"opening {streams:,} streams, s"


def measure_fanout(server: Server, scale: Scale) -> Figures:
    allow(scale.fanout)
    with server.serving() as (_, port):
        began = time.perf_counter()
        with open_streams(port, scale.fanout) as streams:
            opened = time.perf_counter() - began
            times = fan_out(port, streams, scale.changes)
    return {fanout_row(scale.fanout): times, opening_row(scale.fanout): [opened]}


def fan_out(port: int, streams: Sequence[Connection], changes: int) -> list[float]:
    """Return the seconds for each change, from the call that makes it until the last stream has received it.

    Raises:
        RuntimeError: A stream has not received it.
    """
    control = Connection(port)
    touch = Peer(port, MODERN).call("touch", {})
    sockets = {stream.socket.fileno(): stream.socket for stream in streams}
    try:
        with epoll() as waiting:
            for fd in sockets:
                waiting.register(fd, EPOLLIN)
            return [_change(control, touch.numbered(number), waiting, sockets) for number in range(changes)]
    finally:
        control.close()


def _change(control: Connection, touch: bytes, waiting: epoll, sockets: Mapping[int, socket.socket]) -> float:
    missing = dict.fromkeys(sockets, b"")
    began = time.perf_counter()
    control.socket.sendall(touch)
    while missing:
        ready = waiting.poll(WAIT_TIMEOUT, len(sockets))
        # The poll may succeed forever, because comments keep a stream alive that receives no change.
        if not ready or time.perf_counter() > began + WAIT_TIMEOUT:
            raise RuntimeError(
                f"{len(missing)} of {len(sockets)} streams have received no change within {WAIT_TIMEOUT:g} s"
            )
        for fd, _ in ready:
            chunk = sockets[fd].recv(4096)
            if not chunk:
                raise RuntimeError("the server has closed a stream")
            if _UPDATED in chunk:
                missing.pop(fd, None)
            elif fd in missing:
                # A comment that keeps the stream alive, or half of an event.
                missing[fd] += chunk
                if _UPDATED in missing[fd]:
                    del missing[fd]
    elapsed = time.perf_counter() - began
    while control.receive() is None:
        pass
    return elapsed
