"""How much one viewer of the console costs: calls a second over 16 HTTP connections, with and without one.

    python benchmarks/console.py

The page of requests is measured while 1,000 other requests are in flight, and the page of sessions with 10,000 idle
sessions. Rounds with a viewer and without alternate in the same server, so that other work of the machine affects both.
The median of the rounds counts. The last column is the processor time of the viewer without calls, which other work of
the machine changes least: the share of a core that calls cannot use. It needs the distribution mcptrio-console.
"""

from __future__ import annotations

import argparse
import http.client
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from calls import HANDSHAKE, MODERN, Peer
from connections import Connection, connected
from crowd import allow, open_sessions
from load_http import make_calls
from machine import describe_machine
from processes import free_port, started, wait_for
from telemetry import ECHO, QUIET, SERVE, cpu_seconds

__all__ = ["main"]

CONNECTIONS = 16
_LINK_SECONDS = 30.0
_AT_ONCE = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=10_000)
    arguments = parser.parse_args()
    allow(arguments.requests + CONNECTIONS)
    print(f"{describe_machine()}; {CONNECTIONS} connections, {arguments.rounds} rounds of {arguments.seconds:g} s\n")
    print(
        "| page | calls/s without | with viewer | ÷ | µs a call | with viewer | ÷ | updates/s | page ms | % of core |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    requests, sessions = arguments.requests, arguments.sessions
    measure(f"requests, {requests:,} in flight", "tree", lambda port: held(port, requests), arguments)
    measure(f"sessions, {sessions:,} open", "sessions", lambda port: idle(port, sessions), arguments)


def measure(row: str, page: str, crowd: Callable[[int], object], arguments: argparse.Namespace) -> None:
    """Measure one page, and print its row."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    costs: dict[bool, list[float]] = {False: [], True: []}
    with ExitStack() as stack:
        port = free_port()
        command = (*SERVE, QUIET, f"--plugin={ECHO / 'hold_mcptrio.py'}", "--console", f"--port={port}")
        process = stack.enter_context(started(Path(sys.executable), command, pipes=False))
        wait_for(port, process)
        stack.enter_context(crowd(port))  # type: ignore[arg-type]
        cookie = signed_in(port, process.pid)
        connections = stack.enter_context(connected(port, MODERN, CONNECTIONS))
        updates: list[int] = []
        make_calls(connections, 1.0)
        for _ in range(arguments.rounds):
            for has_viewer in (False, True):
                with viewing(port, cookie, page, updates) if has_viewer else ExitStack():
                    before = cpu_seconds(process.pid)
                    load = make_calls(connections, arguments.seconds)
                    used = cpu_seconds(process.pid) - before
                rates[has_viewer].append(load.rate)
                costs[has_viewer].append(used / len(load.latencies) * 1e6)
        seconds = seconds_of_page(port, cookie, page)
        shares: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(arguments.rounds // 2 + 1):
            for has_viewer in (False, True):
                with viewing(port, cookie, page, []) if has_viewer else ExitStack():
                    before, began = cpu_seconds(process.pid), time.perf_counter()
                    time.sleep(2 * arguments.seconds)
                    used, lasted = cpu_seconds(process.pid) - before, time.perf_counter() - began
                shares[has_viewer].append(used / lasted * 100)
    shown = [row]
    for found, digits in ((rates, 0), (costs, 1)):
        without, with_viewer = median(found[False]), median(found[True])
        shown += [f"{without:,.{digits}f}", f"{with_viewer:,.{digits}f}", f"{with_viewer / without:.3f}"]
    shown += [f"{sum(updates) / len(updates) / arguments.seconds:.2f}", f"{seconds * 1000:.0f}"]
    shown.append(f"{median(shares[True]) - median(shares[False]):.2f}")
    print(f"| {' | '.join(shown)} |", flush=True)


@contextmanager
def held(port: int, count: int) -> Iterator[None]:
    """Keep this number of requests in flight."""
    call = Peer(port, MODERN).call("hold", {}, progress=True)
    waiting: list[Connection] = []
    try:
        while len(waiting) < count:
            connections = [Connection(port, (call,)) for _ in range(min(_AT_ONCE, count - len(waiting)))]
            waiting += connections
            for connection in connections:
                connection.send()
            for connection in connections:
                connection.read_until(b"notifications/progress")
        yield
    finally:
        for connection in waiting:
            connection.close()


@contextmanager
def idle(port: int, count: int) -> Iterator[None]:
    """Open this number of sessions."""
    assert len(open_sessions(port, count)) == count, HANDSHAKE
    yield


def signed_in(port: int, pid: int) -> str:
    """Return the cookie of a browser that has used the link."""
    ends = time.monotonic() + _LINK_SECONDS
    # Its standard error is a file without a name.
    while not (found := re.findall(r"console http://[^/]+(\S+)", Path(f"/proc/{pid}/fd/2").read_text("utf-8"))):
        if time.monotonic() > ends:
            raise TimeoutError("expected the link of the console: is mcptrio-console installed?")
        time.sleep(0.05)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LINK_SECONDS)
    connection.request("GET", found[-1])
    cookie = connection.getresponse().headers["set-cookie"]
    connection.close()
    return str(cookie).partition(";")[0]


@contextmanager
def viewing(port: int, cookie: str, page: str, updates: list[int]) -> Iterator[None]:
    """Keep a page open, as a browser does. Appends the number of its updates."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LINK_SECONDS)
    connection.request("GET", f"/console/live/{page}", headers={"Cookie": cookie})
    response = connection.getresponse()
    sock, count = connection.sock, 0

    def read() -> None:
        nonlocal count
        try:
            while line := response.readline():
                count += line.startswith(b"data:")
        except (OSError, ValueError, AttributeError):
            pass  # The block has closed the socket.

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        sock.shutdown(2)
        reader.join()
        connection.close()
        updates.append(count)


def seconds_of_page(port: int, cookie: str, page: str) -> float:
    """Return the time of a whole page, the least of three."""
    found = []
    for _ in range(3):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LINK_SECONDS)
        began = time.perf_counter()
        connection.request("GET", f"/console/{page}", headers={"Cookie": cookie})
        text = connection.getresponse().read()
        found.append(time.perf_counter() - began)
        connection.close()
        assert b"Page 1 of" in text, text[:500]
    return min(found)


if __name__ == "__main__":
    main()
