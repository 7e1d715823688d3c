"""Latency of a healthy client under attack: ``python -m benchmarks.attacked`` in the folder of the project.

Needs Linux and what the tests need. Server, attacker and healthy client are separate processes; each attack has a new
server. Latency is compared only with the latency of the same server at rest, measured seconds before.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

from tests.hostile.attacks import ATTACKS
from tests.hostile.calls import latencies, started
from tests.hostile.serving import ROOT

__all__ = ["main"]

COLUMNS: Final = ("attack", "p50 rest", "attacked", "ratio", "p99 rest", "attacked", "ratio", "peak, MiB")
_WARM_UP: Final = 100
_HEALTHY_ENDS_WITHIN: Final = 300.0
_SECONDS: Final = 2.0
"""Duration of an attack before latency is measured."""


def main() -> int:
    """Exit code 1 when a healthy client was not served."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {', '.join(ATTACKS)}; by default all")
    parser.add_argument("--calls", type=int, default=400, help="of the healthy client, at rest and under each attack")
    options = parser.parse_args()
    unknown = sorted(set(options.attacks) - set(ATTACKS))
    if unknown or options.calls < 1:
        parser.error(f"unknown attacks: {', '.join(unknown)}" if unknown else "--calls: expected 1 or more")
    print(_line(COLUMNS))
    failed = False
    for attack in options.attacks or ATTACKS:
        try:
            print(_line((attack, *_measure(attack, options.calls))), flush=True)
        except (AssertionError, trio.BrokenResourceError, trio.TooSlowError) as error:
            print(f"{attack}: a healthy client was not served: {error!r}", flush=True)
            failed = True
    return int(failed)


def _measure(attack: str, calls: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as server:
        port = server.ports["http"]
        _latencies(port, _WARM_UP)
        rest = _latencies(port, calls)
        server.reset_peak()
        command = [sys.executable, "-m", "tests.hostile.attacks", attack, str(port)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as attacker:
            try:
                assert attacker.stdout is not None
                assert attacker.stdout.readline(), "the attacker ended"
                time.sleep(_SECONDS)
                under = _latencies(port, calls)
            finally:
                attacker.kill()
        return [*_compared(rest, under, 50), *_compared(rest, under, 99), f"{server.peak() / 2**20:.0f}"]


def _latencies(port: int, calls: int) -> list[float]:
    async def bounded() -> list[float]:
        with trio.fail_after(_HEALTHY_ENDS_WITHIN):
            return await latencies(port, calls)

    return trio.run(bounded)


def _compared(rest: list[float], under: list[float], percent: int) -> list[str]:
    """Two percentiles, in milliseconds, and their ratio."""
    before, during = (seconds[len(seconds) * percent // 100] * 1000 for seconds in (rest, under))
    return [f"{before:.2f} ms", f"{during:.2f} ms", f"{during / before:.1f}"]


def _line(cells: tuple[str, ...]) -> str:
    return f"{cells[0]:<16}" + "".join(f"{cell:>11}" for cell in cells[1:])


if __name__ == "__main__":
    sys.exit(main())
