"""Faults and figures of replicas: ``python -m benchmarks.replicas --store all`` in the folder of the project.

Checks the messages of clients of three replicas while replicas are killed and their engine is damaged, or measures the
cost of a store. Needs Linux, the test dependencies, nginx, HAProxy, redis-server and PostgreSQL.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

import trio

from tests.processes import held_port
from tests.replicas.checker import BALANCERS, Report, run_trial
from tests.replicas.engines import engine_of
from tests.replicas.processes import LEASE
from tests.replicas.recovery import seconds_to_recover
from tests.replicas.task_checker import TaskReport, run_task_trial

__all__ = ["main"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_STORES: Final = ("sqlite", "redis", "postgres")
_TRIAL_SECONDS: Final = 60.0
"""Seconds of one trial; a run of minutes has many, each with its own seed, engine and replicas."""


def main() -> int:
    """Return 1 if a guarantee was violated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", default="all", help=f"{', '.join(_STORES)}, all of them, or the URL of an engine")
    parser.add_argument("--proxy", choices=[*BALANCERS, "both"], default="both", help="in front of the replicas")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each store")
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--seed", default=None, help="of the first trial; later ones append a number")
    parser.add_argument("--tasks", action="store_true", help="check tasks instead of messages, always behind nginx")
    parser.add_argument("--figures", action="store_true", help="measure, and make no faults")
    options = parser.parse_args()
    stores = _STORES if options.store == "all" else (options.store,)
    if options.figures:
        for store in stores:
            trio.run(_measure, store)
        return 0
    seed = options.seed or secrets.token_hex(4)
    proxies = list(BALANCERS) if options.proxy == "both" else [options.proxy]
    found = 0
    for store in stores:
        if options.tasks:
            found += _check_tasks(store, seed, options.minutes, options.clients)
        else:
            found += _check(store, proxies, seed, options.minutes, options.clients)
    return int(found > 0)


def _check(store: str, proxies: list[str], seed: str, minutes: float, clients: int) -> int:
    """Run trials for some minutes, print each and their sum, and return the number of violations."""
    faults: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    violations, trials, left = 0, 0, minutes * 60
    while left > 0:
        seconds = min(left, _TRIAL_SECONDS)
        report = _trial(store, proxies[trials % len(proxies)], f"{seed}-{trials}", seconds, clients)
        print(report, flush=True)
        faults += report.faults
        counts += Counter(calls=len(report.history.calls), effects=len(report.history.effects))
        counts += Counter(changes=len(report.history.changes), sessions=len(report.history.sessions))
        violations += len(report.violations)
        trials, left = trials + 1, left - seconds
    print(f"{store}: {trials} trials, {dict(counts)}, faults {dict(sorted(faults.items()))}, {violations} violations")
    return violations


def _check_tasks(store: str, seed: str, minutes: float, clients: int) -> int:
    """As :func:`_check`, with tasks. Every other trial damages the engine too."""
    counts: Counter[str] = Counter()
    violations, trials, left = 0, 0, minutes * 60
    while left > 0:
        seconds = min(left, _TRIAL_SECONDS)
        folder = Path(tempfile.mkdtemp(prefix="mcptrio-trial-"))
        print(f"logs: {folder}")
        run = partial(run_task_trial, store, folder, seed=f"{seed}-{trials}", seconds=seconds, clients=clients)
        report: TaskReport = trio.run(partial(run, has_engine_faults=trials % 2 == 1))
        print(report, flush=True)
        counts += report.faults
        counts += Counter(tasks=len(report.history.tasks), effects=len(report.history.effects))
        violations += len(report.violations)
        trials, left = trials + 1, left - seconds
    print(f"{store}: {trials} trials, {dict(sorted(counts.items()))}, {violations} violations")
    return violations


def _trial(store: str, proxy: str, seed: str, seconds: float, clients: int) -> Report:
    folder = Path(tempfile.mkdtemp(prefix="mcptrio-trial-"))
    print(f"logs: {folder}")

    async def run() -> Report:
        return await run_trial(store, [proxy], folder, seed=seed, seconds=seconds, clients=clients)

    return trio.run(run)


async def _measure(store: str) -> None:
    """Print the figures of a store."""
    print(f"\n{store}")
    with tempfile.TemporaryDirectory(prefix="mcptrio-figures-") as name:
        folder = Path(name)
        async with engine_of(store, folder) as engine:
            command = [sys.executable, str(_ROOT / "benchmarks" / "replica_figures.py"), engine.direct_url]
            # A proxy in Python would be slower than the replicas.
            await trio.run_process(command, cwd=_ROOT, check=True, stderr=subprocess.STDOUT)
            with held_port() as one, held_port() as two:
                taken = await seconds_to_recover(folder, engine, (one, two))
            print(f"a killed replica: its call is answered after {taken:.1f} s, with a lease of {LEASE:g} s")


if __name__ == "__main__":
    sys.exit(main())
