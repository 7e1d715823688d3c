"""The history checker in its short form: replicas are killed and engines damaged while clients work.

A failure prints its seed, and MCPTRIO_HISTORY_SEED plays the same faults again. ``python -m benchmarks.replicas`` does
it for longer.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from tests.replicas.checker import BALANCERS, run_trial

__all__: list[str] = []

SECONDS = {"sqlite": 20.0, "redis": 30.0, "postgres": 20.0}
"""Seconds of faults by engine. Redis has the most kinds of them."""


@pytest.mark.parametrize("engine", SECONDS)
async def test_acknowledged_messages_arrive_despite_faults(engine: str, tmp_path: Path) -> None:
    seed = os.environ.get("MCPTRIO_HISTORY_SEED") or secrets.token_hex(4)
    print(f"MCPTRIO_HISTORY_SEED={seed}")

    report = await run_trial(engine, list(BALANCERS), tmp_path, seed=seed, seconds=SECONDS[engine])

    print(report)
    assert not report.violations, f"\n{report}"
