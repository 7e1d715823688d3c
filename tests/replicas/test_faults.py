"""The faults of a trial come from its seed, and all kinds come before one comes again."""

from __future__ import annotations

from itertools import islice
from random import Random

from tests.replicas.faults import plan

__all__: list[str] = []

KINDS = ("stall a replica", "kill the engine", "delay the network")


def test_same_seed_plans_the_same_faults() -> None:
    first, second = (list(islice(plan(Random("a"), kinds, 3), 20)) for kinds in (KINDS, KINDS[::-1]))

    assert first == second
    assert first != list(islice(plan(Random("b"), KINDS, 3), 20))


def test_no_fault_repeats_before_all_kinds_have_occurred() -> None:
    planned = [fault.kind for fault in islice(plan(Random("a"), KINDS, 3), 6)]

    assert {*planned[:3]} == {*planned[3:]} == {*KINDS}


def test_plan_without_kinds_is_empty() -> None:
    assert list(plan(Random("a"), (), 3)) == []
