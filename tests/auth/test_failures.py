"""Clients with many failures must wait, other clients never do, and the record of failures is bounded."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mcptrio.auth.server.failures import FailureLimit, Failures
from mcptrio.errors import Overloaded
from tests.auth.server_parts import Clock

__all__: list[str] = []


async def test_failures_after_the_burst_are_rate_limited() -> None:
    clock = Clock()
    failures = Failures(FailureLimit(per_minute=6, burst=3), clock)
    for _ in range(3):
        await attempt(failures, "192.0.2.1")
        failures.count("192.0.2.1")

    with pytest.raises(Overloaded, match="too many failed") as refused:
        await attempt(failures, "192.0.2.1")
    assert refused.value.retry_after == pytest.approx(10)
    await attempt(failures, "192.0.2.2")
    clock.now += 10
    await attempt(failures, "192.0.2.1")
    failures.count("192.0.2.1")
    with pytest.raises(Overloaded):
        await attempt(failures, "192.0.2.1")


async def attempt(failures: Failures, address: str | None) -> None:
    """Begin and end an attempt that does not fail."""
    end = await failures.begin(address)
    end()


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
async def test_addresses_of_one_network_are_counted_together(one: str, other: str, same: bool) -> None:
    failures = Failures(FailureLimit(burst=1), Clock())
    failures.count(one)

    if same:
        with pytest.raises(Overloaded):
            await attempt(failures, other)
    else:
        await attempt(failures, other)


async def test_number_of_counted_addresses_is_limited() -> None:
    failures = Failures(FailureLimit(burst=1, addresses=100), Clock())
    for number in range(1000):
        failures.count(f"10.0.{number // 250}.{number % 250}")

    assert len(failures) == 100
    await attempt(failures, "10.0.0.0")  # evicted
    with pytest.raises(Overloaded):
        await attempt(failures, "10.0.3.249")


async def test_failures_are_not_counted_without_a_limit_or_an_address() -> None:
    unbounded = Failures(FailureLimit(per_minute=0, burst=1), Clock())
    bounded = Failures(FailureLimit(burst=1), Clock())
    for _ in range(5):
        unbounded.count("192.0.2.1")
        await attempt(unbounded, "192.0.2.1")
        bounded.count(None)
        await attempt(bounded, None)

    assert len(unbounded) == len(bounded) == 0


async def test_valid_credentials_leave_no_record() -> None:
    failures = Failures(FailureLimit(burst=3), Clock())

    await attempt(failures, "192.0.2.1")
    assert len(failures) == 0


async def test_attempts_over_the_limit_wait_for_earlier_ones() -> None:
    failures, began = Failures(FailureLimit(burst=3), Clock()), 0
    go = trio.Event()

    async def succeed() -> None:
        nonlocal began
        end = await failures.begin("192.0.2.1")
        began += 1
        await go.wait()
        end()

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(succeed)
        await trio.testing.wait_all_tasks_blocked()
        assert began == 3
        go.set()
    assert began == 20
    assert len(failures) == 0
