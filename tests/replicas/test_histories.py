"""The history checker in its short form: replicas are killed and engines damaged while clients work.

A failure prints its seed, and MCPTRIO_HISTORY_SEED plays the same faults again. ``python -m benchmarks.replicas`` does
it for longer.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from tests.replicas.checker import run_trial

__all__: list[str] = []

TRIALS = [("sqlite", "nginx"), ("redis", "nginx"), ("redis", "haproxy"), ("postgres", "nginx")]


@pytest.mark.parametrize(("engine", "balancer"), TRIALS, ids=["-".join(trial) for trial in TRIALS])
async def test_acknowledged_messages_arrive_despite_faults(engine: str, balancer: str, tmp_path: Path) -> None:
    seed = os.environ.get("MCPTRIO_HISTORY_SEED") or secrets.token_hex(4)
    print(f"MCPTRIO_HISTORY_SEED={seed}")

    report = await run_trial(engine, balancer, tmp_path, seed=seed)

    print(report)
    assert not report.violations, f"\n{report}"
