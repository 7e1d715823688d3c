"""Several openings of one file as replicas: the contract that engines for several machines have too."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mcptrio.stores.sqlite import open_sqlite_stores

from .shared_contract import (
    Replica,
    test_effect_of_a_replica_that_has_ended_is_lost,
    test_effect_that_was_given_back_runs_again,
    test_fifty_tasks_on_two_replicas_run_an_effect_once,
    test_proof_is_used_once_over_all_replicas,
    test_quota_holds_over_all_replicas,
    test_refused_call_gets_a_wait_and_uses_no_quota,
    test_result_is_found_by_other_replicas,
)

__all__ = [
    "test_effect_of_a_replica_that_has_ended_is_lost",
    "test_effect_that_was_given_back_runs_again",
    "test_fifty_tasks_on_two_replicas_run_an_effect_once",
    "test_proof_is_used_once_over_all_replicas",
    "test_quota_holds_over_all_replicas",
    "test_refused_call_gets_a_wait_and_uses_no_quota",
    "test_result_is_found_by_other_replicas",
]


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    return partial(open_sqlite_stores, tmp_path / "shared.db")
