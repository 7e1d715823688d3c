"""Load on a server's HTTP endpoint: calls a second and their latency, over more and more connections.

Every connection is its own client, in the handshake era with its own session, and has one call in flight.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from select import EPOLLIN, epoll

from calls import ERAS
from connections import WAIT_TIMEOUT, Connection, connected
from processes import memory_of
from results import MIB, Figures
from scale import Scale
from servers import Server

__all__ = ["Load", "http_row", "make_calls", "measure_http"]


def http_row(era: str, connections: int, figure: str) -> str:
    """Return the name of a row, with its unit."""
    return f"HTTP {era}, {connections} connection{'s' * (connections > 1)}, {figure}"


def measure_http(server: Server, scale: Scale) -> Figures:
    """Return calls a second and latency in both kinds of revision, over one and several connections, and the memory."""
    figures: Figures = {}
    with server.serving() as (process, port):
        with connected(port, ERAS[0], 1):
            at_rest = memory_of(process) / MIB
        for era in ERAS:
            for count in scale.connections:
                with connected(port, era, count) as connections:
                    make_calls(connections, scale.seconds / 4)
                    load = make_calls(connections, scale.seconds)
                figures[http_row(era, count, "calls/s")] = [load.rate]
                figures[http_row(era, count, "p50 ms")] = [load.latency(0.5)]
                figures[http_row(era, count, "p99 ms")] = [load.latency(0.99)]
        figures["memory at rest, HTTP, MiB"] = [at_rest]
        figures["memory after load, HTTP, MiB"] = [memory_of(process) / MIB]
    return figures


@dataclass(frozen=True)
class Load:
    """The result of a load.

    Attributes:
        rate: responses a second.
        latencies: seconds from a call to its complete response, in rising order.
    """

    rate: float
    latencies: Sequence[float]

    def latency(self, share: float) -> float:
        """Return the milliseconds within which this share of the calls was answered."""
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * share))] * 1000


def make_calls(connections: Sequence[Connection], seconds: float) -> Load:
    """Let each connection send its next call when it has the answer. No call is in flight at the end.

    Raises:
        RuntimeError: An answer was invalid, or did not arrive.
    """
    latencies: list[float] = []
    began = time.perf_counter()
    if len(connections) == 1:
        _call_alone(connections[0], began + seconds, latencies)
    else:
        _call_together(connections, began + seconds, latencies)
    elapsed = time.perf_counter() - began
    return Load(len(latencies) / elapsed, sorted(latencies))


def _call_alone(connection: Connection, deadline: float, latencies: list[float]) -> None:
    now = 0.0
    while now < deadline:
        connection.send()
        while connection.receive() is None:
            pass
        now = time.perf_counter()
        latencies.append(now - connection.sent_at)


def _call_together(connections: Sequence[Connection], deadline: float, latencies: list[float]) -> None:
    by_fd = {connection.socket.fileno(): connection for connection in connections}
    with epoll() as waiting:
        for fd, connection in by_fd.items():
            waiting.register(fd, EPOLLIN)
            connection.send()
        busy = len(connections)
        while busy:
            ready = waiting.poll(WAIT_TIMEOUT)
            if not ready:
                raise RuntimeError(f"{busy} calls have had no answer for {WAIT_TIMEOUT:g} s")
            for fd, _ in ready:
                connection = by_fd[fd]
                if connection.receive() is None:
                    continue
                now = time.perf_counter()
                latencies.append(now - connection.sent_at)
                if now < deadline:
                    connection.send()
                else:
                    busy -= 1
