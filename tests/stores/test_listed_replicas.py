"""The list of live replicas is bounded, and its ages grow."""

from __future__ import annotations

import time

from mcptrio.stores import MAX_LISTED, SeenReplica, check_replicas, list_replicas

__all__: list[str] = []


def test_oldest_are_listed_and_all_are_counted() -> None:
    seen = [SeenReplica(f"r{age}", "web", age + 1, float(age), 1.0, time.monotonic()) for age in range(150)]

    listed = list_replicas(seen)

    assert [each.id for each in listed] == [f"r{age}" for age in range(149, 149 - MAX_LISTED, -1)]
    found = check_replicas(listed, 150).found
    assert found.startswith("150 live; r149 at web, process 150, since 20")
    assert found.endswith("last heartbeat 1.0 s ago; and 50 more")


def test_ages_grow_after_the_replica_was_seen() -> None:
    (listed,) = list_replicas([SeenReplica("r", age=5.0, heartbeat=1.0, seen=time.monotonic() - 100)])

    assert listed.age is not None
    assert listed.heartbeat is not None
    assert 105 <= listed.age < 120
    assert 101 <= listed.heartbeat < 116


def test_replica_without_an_entry_is_listed_by_its_id() -> None:
    (listed,) = list_replicas([SeenReplica("r", seen=time.monotonic())])

    assert (listed.id, listed.host, listed.age, listed.heartbeat) == ("r", "", None, None)
    assert check_replicas([listed], 1).found == "1 live; r"


def test_empty_list_of_replicas_is_not_a_problem() -> None:
    check = check_replicas([], 0)

    assert (check.is_ok, check.found) == (True, "0 live")
