"""The contract of every store of effects, used names and quotas. The tests of each engine call these functions.

Each function takes an opener of stores on Trio's clock, which the tests move forward. A function about reopening takes
an opener whose state survives.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trio
import trio.testing

from mcptrio.abc import EffectClaim, EffectState, EffectStore, QuotaStore, ReplayStore, Stores

__all__ = [
    "StoresOpener",
    "a_claim_of_an_ended_process_is_lost",
    "a_name_is_forgotten",
    "a_name_is_used_once",
    "a_name_used_at_once_is_used_once",
    "a_quota_is_taken_at_its_rate",
    "a_quota_taken_at_once_has_its_burst",
    "a_result_is_kept_for_an_hour",
    "a_result_is_kept_for_as_long_as_it_is_asked_to",
    "a_result_of_an_engine_is_kept_for_as_long_as_it_is_asked_to",
    "an_effect_is_claimed_once",
    "effects_claimed_at_once_have_one_claim",
    "one_costly_request_takes_as_many_cheap_ones",
    "state_survives_a_restart",
]

StoresOpener = Callable[[], AbstractAsyncContextManager[Stores]]

CLAIMED = EffectClaim(EffectState.CLAIMED)
RUNNING = EffectClaim(EffectState.RUNNING)
LOST = EffectClaim(EffectState.LOST)


def effects_of(stores: Stores) -> EffectStore:
    assert stores.effects is not None
    return stores.effects


def replays_of(stores: Stores) -> ReplayStore:
    assert stores.replays is not None
    return stores.replays


def quotas_of(stores: Stores) -> QuotaStore:
    assert stores.quotas is not None
    return stores.quotas


def done(result: bytes) -> EffectClaim:
    return EffectClaim(EffectState.DONE, result)


async def an_effect_is_claimed_once(opener: StoresOpener) -> None:
    async with opener() as stores:
        effects = effects_of(stores)
        assert await effects.claim("call", "a") == CLAIMED
        assert await effects.claim("call", "a") == RUNNING
        # Other effects of the call, and the same one of another call.
        assert await effects.claim("call", "b") == CLAIMED
        assert await effects.claim("other", "a") == CLAIMED

        await effects.finish("call", "a", b"[1]")
        await effects.finish("call", "a", b"[1]")
        assert await effects.claim("call", "a") == done(b"[1]")
        await effects.release("call", "a")
        assert await effects.claim("call", "a") == done(b"[1]")

        await effects.release("call", "b")
        await effects.release("call", "never claimed")
        assert await effects.claim("call", "b") == CLAIMED
        assert await effects.claim("other", "a") == RUNNING
        await effects.finish("call", "b", b"")
        assert await effects.claim("call", "b") == done(b"")


async def effects_claimed_at_once_have_one_claim(opener: StoresOpener) -> None:
    results: list[EffectClaim] = []
    async with opener() as stores:

        async def claim() -> None:
            results.append(await effects_of(stores).claim("call", "a"))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(claim)
        assert sorted(each.state.name for each in results) == ["CLAIMED"] + ["RUNNING"] * 19


async def a_claim_of_an_ended_process_is_lost(opener: StoresOpener) -> None:
    """For stores whose state survives the process."""
    async with opener() as stores:
        assert await effects_of(stores).claim("call", "a") == CLAIMED
        assert await effects_of(stores).claim("call", "b") == CLAIMED
        await effects_of(stores).finish("call", "b", b"2")
    async with opener() as stores:
        effects = effects_of(stores)
        assert await effects.claim("call", "a") == LOST
        # A process can neither release nor finish the claim of another one.
        await effects.release("call", "a")
        await effects.finish("call", "a", b"1")
        assert await effects.claim("call", "a") == LOST
        assert await effects.claim("call", "b") == done(b"2")


async def a_result_is_kept_for_an_hour(opener: StoresOpener, clock: trio.testing.MockClock) -> None:
    """For stores on Trio's clock. A claim is kept for as long as its process runs."""
    async with opener() as stores:
        effects = effects_of(stores)
        await effects.claim("call", "running")
        await effects.claim("call", "done")
        await effects.finish("call", "done", b"1")
        clock.jump(3590)
        assert await effects.claim("call", "done") == done(b"1")
        clock.jump(20)
        assert await effects.claim("call", "done") == CLAIMED
        assert await effects.claim("call", "running") == RUNNING


async def a_result_is_kept_for_as_long_as_it_is_asked_to(opener: StoresOpener, clock: trio.testing.MockClock) -> None:
    """For stores on Trio's clock."""
    async with opener() as stores:
        effects = effects_of(stores)
        for key, keep in (("day", 86_400.0), ("minute", 60.0), ("hour", 3600.0)):
            await effects.claim("call", key)
            await effects.finish("call", key, b"1", keep)
        clock.jump(50)
        assert await effects.claim("call", "minute") == done(b"1")
        clock.jump(20)
        assert await effects.claim("call", "minute") == CLAIMED
        clock.jump(3600)
        assert await effects.claim("call", "hour") == CLAIMED
        for n in range(10):
            await effects.claim("later", f"{n}")
            await effects.finish("later", f"{n}", b"")
        assert await effects.claim("call", "day") == done(b"1")
        clock.jump(86_400)
        assert await effects.claim("call", "day") == CLAIMED


async def a_result_of_an_engine_is_kept_for_as_long_as_it_is_asked_to(opener: StoresOpener) -> None:
    """For stores with their own clock."""
    async with opener() as stores:
        effects = effects_of(stores)
        for key, keep in (("moment", 0.5), ("day", 86_400.0), ("forever", 1e15)):
            await effects.claim("call", key)
            await effects.finish("call", key, b"1", keep)
        with trio.fail_after(20):
            while await effects.claim("call", "moment") == done(b"1"):  # noqa: ASYNC110 - only the engine knows
                await trio.sleep(0.1)
        for key in ("day", "forever"):
            assert await effects.claim("call", key) == done(b"1")


async def a_name_is_used_once(opener: StoresOpener) -> None:
    async with opener() as stores:
        replays = replays_of(stores)
        assert await replays.use("a", 60)
        assert not await replays.use("a", 60)
        assert not await replays.use("a", 0.001)
        assert await replays.use("b" * 10_000, 60)
        assert not await replays.use("b" * 10_000, 60)


async def a_name_used_at_once_is_used_once(opener: StoresOpener) -> None:
    results: list[bool] = []
    async with opener() as stores:

        async def use() -> None:
            results.append(await replays_of(stores).use("a", 60))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(use)
        assert results.count(True) == 1


async def a_name_is_forgotten(opener: StoresOpener, clock: trio.testing.MockClock) -> None:
    """For stores on Trio's clock."""
    async with opener() as stores:
        replays = replays_of(stores)
        assert await replays.use("long", 100)
        for n in range(20):
            assert await replays.use(f"short {n}", 10)
        clock.jump(9)
        assert not await replays.use("short 19", 10)
        clock.jump(2)
        assert await replays.use("short 19", 10)
        assert not await replays.use("short 19", 10)
        assert not await replays.use("long", 100)


async def a_quota_is_taken_at_its_rate(opener: StoresOpener, clock: trio.testing.MockClock) -> None:
    """For stores on Trio's clock."""
    async with opener() as stores:
        quotas = quotas_of(stores)

        async def take(name: str = "a") -> float:
            return await quotas.take(name, count=6, seconds=60, burst=3)

        assert [await take() for _ in range(3)] == [0.0, 0.0, 0.0]
        # Nothing is taken by a refusal.
        for _ in range(5):
            assert await take() == pytest.approx(10, abs=0.01)
        assert await take("b") == 0.0
        clock.jump(9)
        assert await take() == pytest.approx(1, abs=0.01)
        clock.jump(1.1)
        assert await take() == 0.0
        assert await take() == pytest.approx(9.9, abs=0.01)
        # No more than the burst is saved.
        clock.jump(100_000)
        assert [await take() for _ in range(3)] == [0.0, 0.0, 0.0]
        assert await take() == pytest.approx(10, abs=0.01)


async def a_quota_taken_at_once_has_its_burst(opener: StoresOpener) -> None:
    results: list[float] = []
    async with opener() as stores:

        async def take() -> None:
            results.append(await quotas_of(stores).take("a", count=1, seconds=3600, burst=5))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(take)
        assert results.count(0.0) == 5
        assert all(3500 < wait <= 3600 for wait in results if wait)


async def one_costly_request_takes_as_many_cheap_ones(opener: StoresOpener) -> None:
    """The store keeps a time, so a request that costs three is taken at a third of the rate, with a third of the
    burst."""
    async with opener() as stores:
        quotas = quotas_of(stores)
        assert await quotas.take("a", count=100, seconds=3 * 3600, burst=3) == 0.0
        assert await quotas.take("a", count=100, seconds=3 * 3600, burst=3) == 0.0
        assert [await quotas.take("a", count=100, seconds=3600, burst=9) for _ in range(3)] == [0.0] * 3
        assert await quotas.take("a", count=100, seconds=3600, burst=9) == pytest.approx(36, abs=1)
        assert await quotas.take("a", count=100, seconds=3 * 3600, burst=3) == pytest.approx(3 * 36, abs=1)


async def state_survives_a_restart(opener: StoresOpener) -> None:
    """For stores whose state survives the process."""
    async with opener() as stores:
        assert await replays_of(stores).use("a", 600)
        assert await quotas_of(stores).take("a", count=2, seconds=3600, burst=1) == 0.0
    async with opener() as stores:
        assert not await replays_of(stores).use("a", 600)
        assert await quotas_of(stores).take("a", count=2, seconds=3600, burst=1) == pytest.approx(1800, abs=60)
