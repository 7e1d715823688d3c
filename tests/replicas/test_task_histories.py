"""The history checker of tasks in its short form: replicas are killed, stopped and restarted while tasks run.

A failure prints its seed, and MCPTRIO_HISTORY_SEED plays the same faults again. ``python -m benchmarks.replicas
--tasks`` does it for longer, and damages the engines too.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from tests.replicas.task_checker import run_task_trial

__all__: list[str] = []


@pytest.mark.parametrize("engine", ["sqlite", "redis", "postgres"])
async def test_each_task_has_one_end_despite_faults(engine: str, tmp_path: Path) -> None:
    seed = os.environ.get("MCPTRIO_HISTORY_SEED") or secrets.token_hex(4)
    print(f"MCPTRIO_HISTORY_SEED={seed}")

    report = await run_task_trial(engine, tmp_path, seed=seed)

    print(report)
    assert not report.violations, f"\n{report}"
