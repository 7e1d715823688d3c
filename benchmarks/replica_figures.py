"""The cost of a store: ``python benchmarks/replica_figures.py URL``, which ``benchmarks.replicas --figures`` runs.

Each figure is measured with the store and, seconds before, with memory; only their ratio is worth comparing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from calls import ERAS, HANDSHAKE, MODERN
from connections import Connection, connected, open_session, unexpected
from crowd import allow, open_sessions, open_streams
from load_fanout import fan_out
from load_http import make_calls
from load_sse import read_burst
from machine import describe_machine
from processes import Process, free_port, memory_of, started, wait_for
from tables import terminal

__all__ = ["main", "serving"]

_ECHO: Final = Path(__file__).resolve().parent / "echo"
_ROUNDS: Final = 3
_SESSIONS: Final = 2000
_SPREAD: Final = 3000
"""Sessions that three replicas hold together."""
_EVENTS: Final = 5000

Row = tuple[str, str, str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", metavar="URL", help="of the stores; their tables must exist")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each rate")
    parser.add_argument("--listeners", type=int, default=10_000, help="subscribers of a change on another replica")
    options = parser.parse_args()
    rows: list[Row] = [("", "memory", "the store", "ratio")]
    rows += _calls(options.url, options.seconds)
    rows.append(_events(options.url))
    rows.append(_memory(options.url))
    rows.append(_fan_out(options.url, options.listeners))
    rows.append(_spread(options.url))
    print(describe_machine())
    print(terminal(rows))
    return 0


@contextmanager
def serving(url: str) -> Iterator[tuple[Process, int]]:
    """Serve over a store, and yield the process and the port."""
    port = free_port()
    plugins = [f"--plugin={_ECHO / name}_mcptrio.py" for name in ("echo", "streams")]
    command = ["-m", "mcptrio", "serve", "--log-level=error", f"--config={_ECHO / 'mcptrio.toml'}", *plugins]
    variables = {"MCPTRIO_KEYS": "a key of the benchmark", "MCPTRIO_SERVER_AUDIENCE": "benchmark"}
    arguments = [*command, "--http", f"--port={port}", "--store", url]
    with started(Path(sys.executable), arguments, pipes=False, variables=variables) as process:
        wait_for(port, process)
        yield process, port


def _calls(url: str, seconds: float) -> Iterator[Row]:
    """Measure calls a second and their latency, in rounds that alternate between memory and the store."""
    with serving("memory") as (_, memory), serving(url) as (_, stored):
        for era in ERAS:
            for count in (1, 16):
                rates: dict[int, list[float]] = {memory: [], stored: []}
                medians: dict[int, list[float]] = {memory: [], stored: []}
                for _ in range(_ROUNDS):
                    for port in (memory, stored):
                        with connected(port, era, count) as connections:
                            make_calls(connections, seconds / 4)
                            load = make_calls(connections, seconds)
                        rates[port].append(load.rate)
                        medians[port].append(load.latency(0.5))
                name = f"{era}, {count} connection{'s' * (count > 1)}"
                yield _row(f"{name}, calls/s", rates[memory], rates[stored], ".0f")
                yield _row(f"{name}, p50 ms", medians[memory], medians[stored], ".2f")


def _events(url: str) -> Row:
    rates: list[list[float]] = []
    for each in ("memory", url):
        with serving(each) as (_, port), connected(port, HANDSHAKE, 1) as (connection,):
            peer = open_session(connection, port)
            read_burst(connection, peer, _EVENTS // 10)
            rates.append([read_burst(connection, peer, _EVENTS) for _ in range(_ROUNDS)])
    return _row("one stream of a session, events/s", *rates, ".0f")


def _memory(url: str) -> Row:
    """Measure the memory of the local part of an idle session; with the store, each one follows a topic of the bus."""
    sizes: list[list[float]] = []
    for each in ("memory", url):
        with serving(each) as (process, port):
            open_sessions(port, 100)
            before = memory_of(process)
            open_sessions(port, _SESSIONS)
            sizes.append([(memory_of(process) - before) / _SESSIONS / 1024])
    return _row("a local session, KiB", *sizes, ".1f")


def _fan_out(url: str, listeners: int) -> Row:
    """Measure the time from a call on one replica until the last listener, on another replica, has its change."""
    allow(listeners)
    with serving("memory") as (_, port), open_streams(port, listeners) as streams:
        alone = fan_out(port, streams, _ROUNDS)
    with serving(url) as (_, port), serving(url) as (_, other), open_streams(other, listeners) as streams:
        shared = fan_out(port, streams, _ROUNDS)
    return _row(f"a change to {listeners:,} listeners of {MODERN}, s", alone, shared, ".3f")


def _spread(url: str) -> Row:
    """Call each session on each of three replicas, of which each has opened a third of the sessions."""
    with ExitStack() as stack:
        ports = [stack.enter_context(serving(url))[1] for _ in range(3)]
        sessions = [session for port in ports for session in open_sessions(port, _SPREAD // 3)]
        began = time.perf_counter()
        for port in ports:
            connection = Connection(port)
            stack.callback(connection.close)
            for number, session in enumerate(sessions):
                answer = connection.ask(replace(session, port=port).call("echo", {"text": "hello"}).numbered(number))
                if b"hello" not in answer:
                    raise unexpected("an echo", answer)
        rate = len(ports) * len(sessions) / (time.perf_counter() - began)
    return f"{_SPREAD:,} sessions, each called on three replicas, calls/s", "", format(rate, ".0f"), ""


def _row(name: str, memory: list[float], stored: list[float], form: str) -> Row:
    first, second = statistics.median(memory), statistics.median(stored)
    return name, format(first, form), format(second, form), f"{second / first:.2f}"


if __name__ == "__main__":
    sys.exit(main())
