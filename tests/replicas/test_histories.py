"""The history checker in its short form: clients of three replicas behind a proxy, in both eras.

With MCPTRIO_HISTORY_SEED, replicas are killed and engines damaged meanwhile, as ``python -m benchmarks.replicas`` does
for longer. Without, nothing fails: what happens in a second of faults depends on the machine as well as on the seed.
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
async def test_acknowledged_messages_arrive_on_any_replica(engine: str, balancer: str, tmp_path: Path) -> None:
    given = os.environ.get("MCPTRIO_HISTORY_SEED")
    seed = given or secrets.token_hex(4)
    print(f"MCPTRIO_HISTORY_SEED={seed}")

    seconds = 20.0 if given else 8.0
    report = await run_trial(engine, balancer, tmp_path, seed=seed, seconds=seconds, has_faults=given is not None)

    print(report)
    assert not report.violations, f"\n{report}"
