"""Measures mcptrio beside its peers: ``python benchmarks/run.py``.

Needs nothing but Python and, the first time, an index to install the peers from; environments are kept in ``.cache/``.
The one rule: figures are compared only within a run, which takes the servers in turn.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections import defaultdict
from pathlib import Path

from load_clients import measure_client
from load_http import measure_http
from load_stdio import measure_start, measure_stdio
from report import Samples, markdown, rows, text
from servers import NULL, SERVERS, Server

__all__ = ["main"]

STARTS = 3
"""Starts a round; the quickest thing measured, and the one that varies most."""


def main() -> int:
    """Exit code 0 when every expectation is met, 1 when one is not."""
    options = _options()
    servers = [server for server in SERVERS if server.name in (options.only or [each.name for each in SERVERS])]
    if options.here:
        servers = [dataclasses.replace(each, requirements=()) if each.name == "mcptrio" else each for each in servers]
    pythons = {server.name: server.python() for server in [*servers, NULL]}
    versions = {server.name: server.version(pythons[server.name]) for server in servers}
    before = os.getloadavg()[0]
    samples = _measure([*servers, NULL], pythons, options)
    table = rows(samples)
    print(text(table))
    if options.output is not None:
        options.output.write_text(markdown(samples, versions, options.rounds, (before, os.getloadavg()[0])), "utf-8")
    return int(any(row[-1] == "FAIL" for row in table))


def _measure(servers: list[Server], pythons: dict[str, Path], options: argparse.Namespace) -> Samples:
    seconds = 0.15 if options.quick else options.seconds
    samples: dict[str, dict[str, list[float]]] = {server.name: defaultdict(list) for server in servers}
    for round in range(options.rounds):
        for turn in range(len(servers)):
            server = servers[(round + turn) % len(servers)]
            python = pythons[server.name]
            print(f"round {round + 1} of {options.rounds}: {server.name}", file=sys.stderr)
            figures: list[dict[str, float]] = []
            if options.transport in (None, "stdio"):
                figures += [measure_start(server, python) for _ in range(1 if options.quick else STARTS)]
                figures.append(measure_stdio(server, python, seconds))
            if options.transport in (None, "http"):
                figures.append(measure_http(server, python, seconds))
            if server is not NULL:
                figures.append(measure_client(server, python, seconds, options.transport))
            for figure in figures:
                for row, value in figure.items():
                    samples[server.name][row].append(value)
    return samples


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=None, help="default 5; 1 with --quick")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each figure of calls/s; default 1.5")
    parser.add_argument("--only", action="append", choices=[server.name for server in SERVERS], help="repeat for more")
    parser.add_argument("--transport", choices=["stdio", "http"], help="default both")
    parser.add_argument("--quick", action="store_true", help="a look whether it works; the figures mean little")
    parser.add_argument(
        "--here", action="store_true", help="mcptrio with this Python, not in an environment of its own"
    )
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="write the table with machine and method")
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = 1 if options.quick else 5
    return options


if __name__ == "__main__":
    sys.exit(main())
