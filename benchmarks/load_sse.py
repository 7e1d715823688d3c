"""Measures the events a second on one stream, with a tool that reports progress and a client that only reads.

In 2026-07-28 the stream is the response of a call, in handshake revisions that of a call in a session. Events are
counted and not decoded, and a missing one is an error.
"""

from __future__ import annotations

import time

from calls import ERAS, HANDSHAKE, Peer
from connections import Connection, connected, open_session, unexpected
from results import Figures
from scale import Scale
from servers import Server

__all__ = ["measure_sse", "read_burst", "sse_row"]

_EVENT = b'"notifications/progress"'
_END = b"0\r\n\r\n"
_FIRST = 500
"""Events of the burst by which the size of the next is chosen."""


def sse_row(era: str) -> str:
    return f"SSE {era}, one stream, events/s"


def measure_sse(server: Server, scale: Scale) -> Figures:
    figures: Figures = {}
    with server.serving() as (_, port):
        for era in ERAS:
            with connected(port, era, 1) as (connection,):
                peer = open_session(connection, port) if era == HANDSHAKE else Peer(port, era)
                rate = read_burst(connection, peer, _FIRST)
                count = min(scale.burst, max(_FIRST, int(rate * scale.seconds)))
                # The first estimate is too low, because caches are still empty.
                rate = read_burst(connection, peer, count)
                count = min(scale.burst, max(_FIRST, int(rate * scale.seconds)))
                figures[sse_row(era)] = [read_burst(connection, peer, count)]
    return figures


def read_burst(connection: Connection, peer: Peer, count: int) -> float:
    """Return the events a second, from the call to the end of the stream.

    Raises:
        RuntimeError: Some events are missing.
    """
    data = peer.call("burst", {"count": count}, progress=True).numbered(0)
    began = time.perf_counter()
    connection.socket.sendall(data)
    seen, kept, head = 0, b"", b""
    while not kept.endswith(_END):
        chunk = connection.socket.recv(1 << 18)
        if not chunk:
            raise unexpected(f"{count} events", head)
        head = head or chunk
        seen += (kept + chunk).count(_EVENT)
        # Keep the possible beginning of an event, and the end of the stream.
        kept = (kept + chunk)[1 - len(_EVENT) :]
    elapsed = time.perf_counter() - began
    if seen != count:
        raise RuntimeError(f"expected {count} events, got {seen}, after {head[:500]!r}")
    return seen / elapsed
