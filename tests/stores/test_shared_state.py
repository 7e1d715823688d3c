"""The contract of effects, used names and quotas, in memory and in a file; and what only a file does."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from mcptrio.abc import Stores
from mcptrio.errors import StoreFailed
from mcptrio.stores import memory_replays, memory_stores, open_sqlite_stores
from mcptrio.stores.wall_clock import WallClock

from . import shared_state_contract as contract
from .shared_state_contract import (
    CLAIMED,
    LOST,
    RUNNING,
    StoresOpener,
    done,
    effects_of,
    quotas_of,
    replays_of,
)

__all__: list[str] = []


@asynccontextmanager
async def memory() -> AsyncIterator[Stores]:
    yield memory_stores()


@asynccontextmanager
async def sqlite(path: Path) -> AsyncIterator[Stores]:
    async with open_sqlite_stores(
        path, clock=WallClock(monotonic=trio.lowlevel.current_clock().current_time)
    ) as stores:
        yield stores


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> StoresOpener:
    return memory if request.param == "memory" else partial(sqlite, tmp_path / "shared.db")


@pytest.mark.parametrize(
    "holds",
    [
        contract.an_effect_is_claimed_once,
        contract.effects_claimed_at_once_have_one_claim,
        contract.a_name_is_used_once,
        contract.a_name_used_at_once_is_used_once,
        contract.a_quota_taken_at_once_has_its_burst,
        contract.one_costly_request_takes_as_many_cheap_ones,
    ],
)
async def test_contract(holds: Callable[[StoresOpener], Awaitable[None]], opened: StoresOpener) -> None:
    await holds(opened)


@pytest.mark.parametrize(
    "holds",
    [
        contract.a_result_is_kept_for_an_hour,
        contract.a_result_is_kept_for_as_long_as_it_is_asked_to,
        contract.a_name_is_forgotten,
        contract.a_quota_is_taken_at_its_rate,
    ],
)
async def test_contract_over_time(
    holds: Callable[[StoresOpener, trio.testing.MockClock], Awaitable[None]],
    opened: StoresOpener,
    mock_clock: trio.testing.MockClock,
) -> None:
    await holds(opened, mock_clock)


@pytest.mark.parametrize("holds", [contract.a_claim_of_an_ended_process_is_lost, contract.state_survives_a_restart])
async def test_contract_over_restarts(holds: Callable[[StoresOpener], Awaitable[None]], tmp_path: Path) -> None:
    await holds(partial(open_sqlite_stores, tmp_path / "shared.db"))


OTHER = """
import sys, trio
from mcptrio.stores import open_sqlite_stores

async def main():
    async with open_sqlite_stores(sys.argv[1]) as stores:
        print((await stores.effects.claim("call", "theirs")).state.name, flush=True)
        await stores.effects.claim("call", "done")
        await stores.effects.finish("call", "done", b"1")
        print(await stores.replays.use("ours", 60), flush=True)
        print(await stores.quotas.take("a", count=1, seconds=3600, burst=1) > 0, flush=True)
        print("end", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_process_that_is_killed_loses_its_claims(tmp_path: Path) -> None:
    file = tmp_path / "shared.db"
    with trio.fail_after(60):
        async with open_sqlite_stores(file) as stores, trio.open_nursery() as nursery:
            effects = effects_of(stores)
            assert await replays_of(stores).use("ours", 60)
            assert await quotas_of(stores).take("a", count=1, seconds=3600, burst=1) == 0.0
            command = [sys.executable, "-c", OTHER, str(file)]
            process = await nursery.start(partial(trio.run_process, command, stdout=subprocess.PIPE, check=False))
            received = b""
            while not received.endswith(b"end\n"):
                received += await process.stdout.receive_some()
            assert received == b"CLAIMED\nFalse\nTrue\nend\n"
            assert await effects.claim("call", "theirs") == RUNNING
            await effects.release("call", "theirs")
            assert await effects.claim("call", "theirs") == RUNNING

            process.kill()
            await process.wait()
            assert await effects.claim("call", "theirs") == LOST
            assert await effects.claim("call", "done") == done(b"1")
            assert await effects.claim("call", "ours") == CLAIMED


async def test_damaged_file_fails_every_operation(tmp_path: Path) -> None:
    async with sqlite(tmp_path / "shared.db") as stores:
        connection = sqlite3.connect(tmp_path / "shared.db")
        for table in ("effects", "replays", "quotas"):
            connection.execute(f"DROP TABLE {table}")
        connection.close()
        with pytest.raises(StoreFailed):
            await effects_of(stores).claim("call", "a")
        with pytest.raises(StoreFailed):
            await replays_of(stores).use("a", 60)
        with pytest.raises(StoreFailed):
            await quotas_of(stores).take("a", count=1, seconds=1, burst=1)


async def test_of_too_many_names_further_ones_fail(
    opened: StoresOpener, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_replays, "MAX_NAMES", 3)
    monkeypatch.setattr("mcptrio.stores.sqlite_replays.MAX_NAMES", 3)
    async with opened() as stores:
        replays = replays_of(stores)
        for n in range(3):
            assert await replays.use(f"{n}", 60)
        for _ in range(2):
            with pytest.raises(StoreFailed, match="too many used names"):
                await replays.use("more", 60)
        assert not await replays.use("0", 60)
        mock_clock.jump(61)
        assert await replays.use("more", 60)


async def test_of_too_many_quotas_one_is_forgotten(opened: StoresOpener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcptrio.stores.memory_quotas.MAX_QUOTAS", 3)
    monkeypatch.setattr("mcptrio.stores.sqlite_quotas.MAX_QUOTAS", 3)
    async with opened() as stores:
        quotas = quotas_of(stores)
        for n in range(50):
            assert await quotas.take(f"{n}", count=1, seconds=3600 + n, burst=1) == 0.0
        assert await quotas.take("49", count=1, seconds=3600, burst=1) > 0.0
        assert await quotas.take("0", count=1, seconds=3600, burst=1) == 0.0


async def test_old_rows_leave_the_file(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    async with sqlite(tmp_path / "shared.db") as stores:
        for n in range(30):
            await effects_of(stores).claim("call", f"{n}")
            await effects_of(stores).finish("call", f"{n}", b"1")
            await replays_of(stores).use(f"{n}", 60)
            await quotas_of(stores).take(f"{n}", count=1, seconds=60, burst=1)
        mock_clock.jump(4000)
        for n in range(30):
            await effects_of(stores).claim("later", f"{n}")
            await replays_of(stores).use(f"later {n}", 60)
            await quotas_of(stores).take(f"later {n}", count=1, seconds=60, burst=1)
        connection = sqlite3.connect(tmp_path / "shared.db")
        tables = ("effects", "replays", "quotas")
        assert [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables] == [30] * 3
        sums = dict(connection.execute("SELECT name, value FROM sums").fetchall())
        assert (sums["replays"], sums["quotas"]) == (30, 30)
        connection.close()


async def test_clock_that_was_set_back_empties_no_quota_for_long(tmp_path: Path) -> None:
    for wall in (2_000_000_000.0, 1_900_000_000.0):
        clock = WallClock(wall=lambda wall=wall: wall)  # type: ignore[misc]
        async with open_sqlite_stores(tmp_path / "shared.db", clock=clock) as stores:
            wait = await quotas_of(stores).take("a", count=1, seconds=3600, burst=1)
            assert wait == (0.0 if wall == 2_000_000_000.0 else pytest.approx(3600, abs=60))


async def test_result_that_is_kept_for_a_day_outlives_a_restart(tmp_path: Path) -> None:
    time = 1_900_000_000.0
    clock = WallClock(wall=lambda: time, monotonic=lambda: time)
    for passed, expected in ((0.0, CLAIMED), (7200.0, done(b"1")), (86_400.0, CLAIMED)):
        time += passed
        async with open_sqlite_stores(tmp_path / "shared.db", clock=clock) as stores:
            # After each restart, nothing expires for a minute.
            time += 90
            assert await effects_of(stores).claim("call", "a") == expected
            if expected == CLAIMED:
                await effects_of(stores).finish("call", "a", b"1", 86_400.0)


async def test_in_memory_the_result_that_expires_first_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcptrio.stores.memory_effects._MAX_RESULTS", 3)
    effects = effects_of(memory_stores())
    for key, keep in (("day", 86_400.0), ("a", 60.0), ("b", 3600.0), ("c", 1.0), ("d", 7200.0)):
        await effects.claim("call", key)
        await effects.finish("call", key, b"1", keep)
    states = [(await effects.claim("call", key)).state.name for key in ("day", "a", "b", "c", "d")]
    assert states == ["DONE", "CLAIMED", "DONE", "CLAIMED", "DONE"]
