"""Measure mcptrio and its peers in the same run: ``python benchmarks/run.py``.

Needs Linux and Python. The first run installs the peers from a package index into environments below ``.cache/``.
Compare figures only within a run, because the machine's speed changes from run to run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from environments import ROOT
from groups import MEASURED
from pictures import can_draw, draw
from report import Run, page
from results import Results
from scale import FULL, GROUPS, QUICK, Scale
from servers import NULL, OURS, SERVERS, Server, here
from soak import soak
from summary import summary
from tables import group_table, judged, terminal, verdicts_table

__all__ = ["main"]


def main() -> int:
    """Return 0 if all targets are met, and 1 if one is missed or a measurement has failed."""
    options = _options()
    servers = [server for server in SERVERS if server.name in options.only or server is NULL]
    if options.here:
        servers = [here(server) if server in (OURS, NULL) else server for server in servers]
    if options.soak is not None:
        return int(not soak(next(server for server in servers if server.name == OURS.name), options.soak))
    scale = _scale(options)
    run = Run(
        groups=[group for group in GROUPS if group in options.rows],
        scale=scale,
        versions={server.name: server.version for server in servers},
        load=(os.getloadavg()[0], 0.0),
    )
    results = _measure(servers, run)
    run = replace(run, load=(run.load[0], os.getloadavg()[0]))
    _print(results, run)
    if options.write is not None:
        _write(results, run, options.write)
    return int(bool(results.failures) or not judged(results, run.groups))


def _measure(servers: list[Server], run: Run) -> Results:
    results = Results()
    began = time.perf_counter()
    for name in run.groups:
        taking_part = [server for server in servers if name in server.groups]
        rounds = run.scale.rounds[name]
        failed: set[str] = set()
        for round in range(rounds):
            for turn in range(len(taking_part)):
                server = taking_part[(round + turn) % len(taking_part)]
                if server.name in failed:
                    continue
                elapsed = time.perf_counter() - began
                print(f"{elapsed:4.0f} s  {name}, round {round + 1} of {rounds}: {server.name}", file=sys.stderr)
                try:
                    results.add(name, server.name, MEASURED[name].measure(server, run.scale))
                except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                    # A server that fails must not prevent the measurement of the others.
                    print(f"failed: {error}", file=sys.stderr)
                    failed.add(server.name)
                    results.failures.append((name, server.name, " ".join(str(error).split())[:300]))
    print(f"{time.perf_counter() - began:4.0f} s", file=sys.stderr)
    return results


def _print(results: Results, run: Run) -> None:
    for name in run.groups:
        print(f"\n{MEASURED[name].title}\n\n{terminal(group_table(results, name, spread=False))}")
    print(f"\nTargets\n\n{terminal(verdicts_table(results, run.groups))}")
    for group, server, reason in results.failures:
        print(f"could not be measured: {server}, {group}: {reason}")


def _write(results: Results, run: Run, folder: Path) -> None:
    short, full = folder / "docs" / "performance.md", folder / "benchmarks" / "RESULTS.md"
    pictures: dict[str, str] = {}
    if can_draw():
        drawn = draw(results, run.scale, short.parent / short.stem)
        pictures = {name: f"{short.stem}/{picture.name}" for name, picture in drawn.items()}
    else:
        print("no pictures without matplotlib (pip install --group benchmarks): tables only", file=sys.stderr)
    short.parent.mkdir(parents=True, exist_ok=True)
    full.parent.mkdir(parents=True, exist_ok=True)
    short.write_text(summary(results, run.described_versions, pictures), "utf-8")
    full.write_text(page(results, run, {name: f"../docs/{path}" for name, path in pictures.items()}), "utf-8")


def _scale(options: argparse.Namespace) -> Scale:
    scale = QUICK if options.quick else FULL
    if options.rounds is not None:
        scale = replace(scale, rounds=dict.fromkeys(GROUPS, options.rounds))
    if options.seconds is not None:
        scale = replace(scale, seconds=options.seconds)
    return scale


def _options() -> argparse.Namespace:
    names = [server.name for server in SERVERS if server is not NULL]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=_rows, default=GROUPS, help=f"some of {','.join(GROUPS)}; default all")
    parser.add_argument("--only", action="append", choices=names, help="measure this server; repeat for more")
    parser.add_argument("--rounds", type=int, help=f"of every group; default {dict(FULL.rounds)}, 1 with --quick")
    parser.add_argument("--seconds", type=float, help=f"for each rate; default {FULL.seconds:g}")
    parser.add_argument("--quick", action="store_true", help="a look whether it works; the figures mean little")
    parser.add_argument("--here", action="store_true", help="mcptrio with this Python, not in its own environment")
    parser.add_argument(
        "--write",
        nargs="?",
        const=ROOT,
        type=Path,
        metavar="DIR",
        help="write docs/performance.md with its pictures, and benchmarks/RESULTS.md; below DIR, by default here",
    )
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="load for so long, then look for what is left")
    options = parser.parse_args()
    options.only = options.only or names
    return options


def _rows(text: str) -> tuple[str, ...]:
    rows = tuple(text.split(","))
    if unknown := set(rows) - set(GROUPS):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(GROUPS)}, got {', '.join(sorted(unknown))}")
    return rows


if __name__ == "__main__":
    sys.exit(main())
