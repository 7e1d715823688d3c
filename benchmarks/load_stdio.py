"""Load on a server's standard input and output: blocking pipes, messages encoded beforehand, answers counted.

Answers are lines, and are not decoded. The first one is compared with the expected text, and an error in any answer
ends the measurement.
"""

from __future__ import annotations

import os
import time

from processes import Process, memory_of, started
from results import MIB, Figures
from scale import Scale
from servers import Server

__all__ = ["call_through_pipes", "initialize", "measure_stdio"]

IN_FLIGHT = 64
"""Calls in flight in the pipelined measurement."""

_INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"benchmark","version":"1"}}}\n'
)
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
_FIRST = 10_000_000
_COUNT = 1 << 14
_CALLS = b"".join(
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}\n' % id
    for id in range(_FIRST, _FIRST + _COUNT)
)
"""Calls of equal length, so that the one with number n is at n times that. Used again from the beginning when through:
by then nothing with the same id is in flight."""
_SIZE = len(_CALLS) // _COUNT


def measure_stdio(server: Server, scale: Scale) -> Figures:
    """Return the milliseconds until initialize is answered, the calls a second, and the memory."""
    interpreter = server.home.interpreter()
    starts = []
    for _ in range(scale.starts):
        began = time.perf_counter()
        with started(interpreter, server.stdio, pipes=True) as process:
            initialize(process)
            starts.append((time.perf_counter() - began) * 1000)
    with started(interpreter, server.stdio, pipes=True) as process:
        initialize(process)
        _write(process, _INITIALIZED + _CALLS[:_SIZE])
        answer = _read(process)
        if b"hello" not in answer or answer.count(b"\n") != 1:
            raise RuntimeError(f"expected an echo, got {answer[:500]!r}")
        at_rest = memory_of(process) / MIB
        call_through_pipes(process, scale.seconds / 4, 1)  # so that nothing is done for the first time
        return {
            "start, ms": starts,
            "stdio, 1 in flight, calls/s": [call_through_pipes(process, scale.seconds, 1)],
            f"stdio, {IN_FLIGHT} in flight, calls/s": [call_through_pipes(process, scale.seconds, IN_FLIGHT)],
            "memory at rest, stdio, MiB": [at_rest],
            "memory after load, stdio, MiB": [memory_of(process) / MIB],
        }


def initialize(process: Process) -> None:
    """Send initialize, and return the response."""
    _write(process, _INITIALIZE)
    answer = _read(process)
    if b'"result"' not in answer:
        raise RuntimeError(f"expected an answer to initialize, got {answer[:500]!r}")


def call_through_pipes(process: Process, seconds: float, in_flight: int) -> float:
    """Return the answers a second with a constant number of calls in flight. None is in flight at the end."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    began = time.perf_counter()
    deadline = began + seconds
    sent = in_flight
    answered = 0
    _write(process, _CALLS[: in_flight * _SIZE])
    while answered < sent:
        chunk = os.read(fd, 1 << 16)
        if not chunk or b'"error":' in chunk or b'"isError":true' in chunk:
            raise RuntimeError(f"expected echoes, got {chunk[:500]!r}")
        fresh = chunk.count(b"\n")
        answered += fresh
        if fresh and time.perf_counter() < deadline:
            at = sent % _COUNT
            data = _CALLS[at * _SIZE : (at + fresh) * _SIZE]
            if at + fresh > _COUNT:
                data += _CALLS[: (at + fresh - _COUNT) * _SIZE]
            _write(process, data)
            sent += fresh
    return answered / (time.perf_counter() - began)


def _write(process: Process, data: bytes) -> None:
    assert process.stdin is not None
    fd = process.stdin.fileno()
    while data:
        data = data[os.write(fd, data) :]


def _read(process: Process) -> bytes:
    """Return complete lines."""
    assert process.stdout is not None
    data = b""
    while not data.endswith(b"\n"):
        chunk = os.read(process.stdout.fileno(), 1 << 16)
        if not chunk:
            raise RuntimeError(f"the server has ended, after {data[:500]!r}")
        data += chunk
    return data
