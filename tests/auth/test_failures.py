"""Who fails too often has to wait; who does not fail never does; and remembering it costs so much and no more."""

from __future__ import annotations

import pytest

from mcptrio.auth.failures import FailureLimit, Failures
from mcptrio.errors import Overloaded
from tests.auth.server_parts import Clock

__all__: list[str] = []


def test_the_burst_is_free_and_the_rest_comes_by_the_minute() -> None:
    clock = Clock()
    failures = Failures(FailureLimit(per_minute=6, burst=3), clock)
    for _ in range(3):
        failures.check("192.0.2.1")
        failures.count("192.0.2.1")

    with pytest.raises(Overloaded, match="too many failed") as refused:
        failures.check("192.0.2.1")
    assert refused.value.retry_after == pytest.approx(10)
    failures.check("192.0.2.2")
    clock.now += 10
    failures.check("192.0.2.1")
    failures.count("192.0.2.1")
    with pytest.raises(Overloaded):
        failures.check("192.0.2.1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("somebody", "somebody", True),
    ],
)
def test_addresses_of_one_customer_count_together(one: str, other: str, same: bool) -> None:
    failures = Failures(FailureLimit(burst=1), Clock())
    failures.count(one)

    if same:
        with pytest.raises(Overloaded):
            failures.check(other)
    else:
        failures.check(other)


def test_no_more_addresses_are_remembered_than_was_said() -> None:
    failures = Failures(FailureLimit(burst=1, addresses=100), Clock())
    for number in range(1000):
        failures.count(f"10.0.{number // 250}.{number % 250}")

    assert len(failures) == 100
    failures.check("10.0.0.0")  # forgotten
    with pytest.raises(Overloaded):
        failures.check("10.0.3.249")


def test_nothing_counts_without_a_bound_or_an_address() -> None:
    unbounded = Failures(FailureLimit(per_minute=0, burst=1), Clock())
    bounded = Failures(FailureLimit(burst=1), Clock())
    for _ in range(5):
        unbounded.count("192.0.2.1")
        unbounded.check("192.0.2.1")
        bounded.count(None)
        bounded.check(None)

    assert len(unbounded) == len(bounded) == 0
