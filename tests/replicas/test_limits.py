"""Quotas and proofs over three replicas without faults, and how the checker reads when a replica counts alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replicas.checker import run_trial
from tests.replicas.history import Delivery, History
from tests.replicas.quota_client import read_local_quotas
from tests.replicas.trial import Trial

__all__: list[str] = []

FAILED = (
    "ERROR   mcptrio.rate_limit: quotas are not shared while the store fails, each of {} replicas has its part: why"
)
LOG = f"""\
2026-11-27 05:02:01,177 INFO    trial: loaded
2026-11-27 05:02:11,000 {FAILED.format(3)}
2026-11-27 05:02:12,000 INFO    mcptrio.rate_limit: quotas are shared again
2026-11-27 05:02:13,000 INFO    mcptrio.server: something else
2026-11-27 05:02:14,000 {FAILED.format(2)}
2026-11-27 05:02:15,500 INFO    trial: loaded
"""


async def test_without_faults_replicas_allow_the_rate_and_each_proof_once(tmp_path: Path) -> None:
    report = await run_trial("sqlite", ["nginx"], tmp_path, seed="calm", seconds=4.0, clients=0, is_calm=True)

    print(report)
    assert not report.violations, f"\n{report}"
    assert any(limited.refused is not None for limited in report.history.limited)
    assert any(Delivery.ACCEPTED in proof.deliveries for proof in report.history.proofs)


async def test_log_of_a_replica_says_when_it_counts_alone(tmp_path: Path) -> None:
    log = tmp_path / "replica0.log"
    log.write_text(LOG)
    trial = Trial([0], History())

    found = list(read_local_quotas(log, trial))

    assert [(local.replica, local.replicas) for local in found] == [("replica0", 3), ("replica0", 2)]
    # The second one ends with the process.
    assert [local.ended - local.begun for local in found] == pytest.approx([1.0, 1.5], abs=0.01)
    assert found[1].begun - found[0].begun == pytest.approx(3.0, abs=0.01)
