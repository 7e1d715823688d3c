"""How much telemetry costs: calls a second over 16 HTTP connections, without it, with spans, and with metrics.

    python benchmarks/telemetry.py
    python benchmarks/telemetry.py --before ../an-older-checkout

The servers run at the same time and are measured in alternating rounds, so that other work of the machine affects all
of them. The median of the rounds counts. A share is the median of the shares of each round, because the machine is
faster in some rounds than in others.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from calls import MODERN
from connections import connected
from load_http import make_calls
from machine import describe_machine
from processes import free_port, started, wait_for

__all__ = ["ECHO", "QUIET", "SERVE", "cpu_seconds", "main"]

CONNECTIONS = 16
ECHO = Path(__file__).resolve().parent / "echo"
SERVE = (
    "-m",
    "mcptrio",
    "serve",
    f"--config={ECHO / 'mcptrio.toml'}",
    f"--plugin={ECHO / 'echo_mcptrio.py'}",
    "--http",
)
QUIET = "--log-level=warning"
TRACED = f"--plugin={ECHO / 'traced_mcptrio.py'}"
EMPTY = f"--plugin={ECHO / 'empty_span_mcptrio.py'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    arguments = parser.parse_args()
    servers: dict[str, tuple[tuple[str, ...], Path | None]] = {
        "off": ((QUIET,), None),
        "an empty span of the SDK": ((QUIET, EMPTY), None),
        "spans": ((QUIET, TRACED), None),
        "page of metrics": ((QUIET, f"--metrics={free_port()}"), None),
        "request lines": ((), None),
    }
    if arguments.before is not None:
        servers["before"] = ((QUIET,), arguments.before)
    rates: dict[str, list[float]] = {name: [] for name in servers}
    costs: dict[str, list[float]] = {name: [] for name in servers}
    with ExitStack() as stack:
        running = {}
        for name, (words, folder) in servers.items():
            port = free_port()
            variables = {"PYTHONPATH": str(folder)} if folder is not None else {}
            command = (*SERVE, *words, f"--port={port}")
            process = stack.enter_context(started(Path(sys.executable), command, pipes=False, variables=variables))
            wait_for(port, process)
            running[name] = port, process.pid
        for number in range(arguments.rounds + 1):
            for name, (port, pid) in running.items():
                with connected(port, MODERN, CONNECTIONS) as connections:
                    before = cpu_seconds(pid)
                    load = make_calls(connections, arguments.seconds)
                    used = cpu_seconds(pid) - before
                # The first round fills caches.
                if number:
                    rates[name].append(load.rate)
                    costs[name].append(used / len(load.latencies) * 1e6)
    print(f"{describe_machine()}; {CONNECTIONS} connections, {arguments.rounds} rounds\n")
    print("| telemetry | calls/s | ÷ off | CPU µs a call | ÷ off |\n|---|---|---|---|---|")
    for name, found in rates.items():
        shown = f"{median(found):,.0f} ({min(found):,.0f} – {max(found):,.0f})"
        rate, cost = _share(found, rates["off"]), _share(costs[name], costs["off"])
        print(f"| {name} | {shown} | {rate:.3f} | {median(costs[name]):.0f} | {cost:.3f} |")


def _share(figures: list[float], of: list[float]) -> float:
    return median(figure / base for figure, base in zip(figures, of, strict=True))


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, which other work of the machine changes less than the rate."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
