"""The token bucket: a burst, then a number of calls per second."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from mcptrio.ground.token_bucket import TokenBucket

__all__: list[str] = []


async def test_bucket_allows_a_burst_then_the_rate(autojump_clock: MockClock) -> None:
    bucket = TokenBucket(rate=2, burst=3)
    assert [bucket.take() for _ in range(5)] == [True] * 3 + [False] * 2

    await trio.sleep(0.5)
    assert [bucket.take() for _ in range(2)] == [True, False]


async def test_bucket_never_holds_more_than_a_burst(autojump_clock: MockClock) -> None:
    bucket = TokenBucket(rate=2, burst=3)

    await trio.sleep(3600)
    assert [bucket.take() for _ in range(4)] == [True] * 3 + [False]
