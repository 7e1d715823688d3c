"""Hours of load on mcptrio's server, with a check of memory and descriptors before and after.

The load contains calls in both kinds of revision, sessions that begin and end, bursts of events, change notifications,
clients that disconnect during a call, and invalid requests. Both checks are made without load, and the first fifth of
the time, in which caches fill, is not counted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from calls import ERAS, HANDSHAKE, MODERN, Peer
from connections import Connection, connected
from crowd import open_sessions, open_streams
from load_fanout import fan_out
from load_http import make_calls
from load_sse import read_burst
from load_stdio import call_through_pipes, initialize
from processes import Process, descriptors_of, memory_of, started
from results import MIB
from servers import Server
from tables import terminal

__all__ = ["GROWTH", "GROWTH_MIB", "soak"]

GROWTH = 0.05
GROWTH_MIB = 2.0
"""Memory may grow by this share plus this size, because the allocator keeps different amounts."""

_SETTLE = 15.0
"""Seconds in which descriptors of connections that were closed have to be gone."""
_SECONDS = 0.5
"""Seconds for each kind of calls in a cycle; less if there are fewer than ten of these in all."""
_CROWD = 32
"""Sessions and streams in a cycle."""


@dataclass(frozen=True)
class _Look:
    memory: float
    descriptors: int


def soak(server: Server, minutes: float) -> bool:
    """Print the work done and the resources left. Return whether none is left."""
    began = time.perf_counter()
    deadline = began + minutes * 60
    seconds = min(_SECONDS, minutes * 6)
    cycles, calls = 0, 0
    with (
        server.serving() as (http, port),
        started(server.home.interpreter(), server.stdio, pipes=True) as stdio,
    ):
        initialize(stdio)
        _cycle(port, stdio, seconds)
        while time.perf_counter() < began + minutes * 12:
            _cycle(port, stdio, seconds)
        before = {"HTTP": _look(http, None), "stdio": _look(stdio, None)}
        while cycles == 0 or time.perf_counter() < deadline:
            calls += _cycle(port, stdio, seconds)
            cycles += 1
        after = {"HTTP": _look(http, before["HTTP"]), "stdio": _look(stdio, before["stdio"])}
    table = [("", "memory before, MiB", "after", "at most", "descriptors before", "after", "")]
    passed = True
    for name, then in before.items():
        now = after[name]
        most = then.memory * (1 + GROWTH) + GROWTH_MIB
        good = now.memory <= most and now.descriptors <= then.descriptors
        passed = passed and good
        figures = (
            f"{then.memory:.1f}",
            f"{now.memory:.1f}",
            f"{most:.1f}",
            str(then.descriptors),
            str(now.descriptors),
        )
        table.append((name, *figures, "pass" if good else "FAIL"))
    print(f"{time.perf_counter() - began:.0f} s, {cycles} cycles after warming up, {calls:,} calls and events in them")
    print(terminal(table))
    return passed


def _look(process: Process, expected: _Look | None) -> _Look:
    """Measure without load, after closed connections had a moment to end."""
    deadline = time.perf_counter() + _SETTLE
    while expected is not None and descriptors_of(process) > expected.descriptors and time.perf_counter() < deadline:
        time.sleep(0.1)
    if expected is None:
        time.sleep(1)
    return _Look(memory_of(process) / MIB, descriptors_of(process))


def _cycle(port: int, stdio: Process, seconds: float) -> int:
    """Run each kind of load once. Return the numbers of calls and events."""
    done = int(call_through_pipes(stdio, seconds, 64) * seconds)
    sessions = open_sessions(port, _CROWD)
    for era in ERAS:
        peers = sessions if era == HANDSHAKE else [Peer(port, MODERN)]
        calls = [peer.call("echo", {"text": "hello"}) for peer in peers]
        with connected(port, era, 16, calls) as connections:
            done += len(make_calls(connections, seconds).latencies)
        with connected(port, era, 1, calls) as (connection,):
            read_burst(connection, peers[0], 2_000)
        done += 2_000
        for number in range(4):
            _hang_up(port, peers[-1].call("burst", {"count": 5_000}, progress=True).numbered(number))
    with open_streams(port, _CROWD) as streams:
        fan_out(port, streams, 3)
    done += _CROWD * 3
    for data in (b"not HTTP at all\r\n\r\n", b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1\r\n\r\n{"):
        _send_rubbish(port, data)
    with connected(port, MODERN, 1) as (connection,):
        for session in sessions:
            connection.ask(session.delete())
    return done


def _hang_up(port: int, burst: bytes) -> None:
    """Disconnect in the middle of a stream."""
    connection = Connection(port)
    connection.socket.sendall(burst)
    connection.read_until(b"notifications/progress")
    connection.close()


def _send_rubbish(port: int, data: bytes) -> None:
    connection = Connection(port)
    connection.socket.sendall(data)
    answer = connection.socket.recv(1 << 16)
    connection.close()
    if answer and not answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")):
        raise RuntimeError(f"expected a refusal, got {answer[:500]!r}")
