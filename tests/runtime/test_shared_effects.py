"""Side effects in ``ctx.once`` over several replicas: one for each call, whichever replica receives its deliveries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, evolve, field
from trio.testing import MockClock

from mcptrio import Context
from mcptrio.abc import EffectClaim, EffectState, EffectStore, Stores
from mcptrio.errors import StoreFailed
from mcptrio.protocol.messages import Notification
from mcptrio.runtime.shared_effects import REPORT_SECONDS
from mcptrio.serving import ServerLimits, Timeouts
from mcptrio.stores import MemoryBus, memory_stores, open_sqlite_stores
from tests.runtime.peers import Client, connected
from tests.runtime.test_effects import Till
from tests.runtime.test_round_trips import accept, first_round, keys, retry, serving, text

__all__: list[str] = []

KEYS = [b"a key of all replicas"]
ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def replicas(
    function: Callable[..., Awaitable[str]], stores: Stores, count: int = 2, **options: Any
) -> AsyncIterator[list[Client]]:
    """Yield a client of each replica."""
    async with AsyncExitStack() as stack:
        servers = [serving(function, stores=stores, keys=KEYS, **options) for _ in range(count)]
        yield [await stack.enter_async_context(connected(server, revision=None)) for server in servers]


def buy(till: Till) -> Callable[[Context], Awaitable[str]]:
    async def buy(ctx: Context) -> str:
        await ctx.elicit("sure?", str, key="sure")
        return f"receipt {await ctx.once(till.charge, 'ann', key='charge')}"

    return buy


@define(eq=False)
class Faulty:
    """Effects in a store that fails sometimes.

    Args:
        failing: The methods that fail.
        hanging: The methods that never return.
        late: The methods that fail after they have done their work, as if the response was lost.
        asked: The number of requested claims.
    """

    effects: EffectStore
    failing: set[str] = field(factory=set)
    hanging: set[str] = field(factory=set)
    late: set[str] = field(factory=set)
    asked: int = 0

    async def claim(self, call: str, key: str) -> EffectClaim:
        self.asked += 1
        self._check("claim", self.failing)
        claim = await self.effects.claim(call, key)
        self._check("claim", self.late)
        return claim

    async def finish(self, call: str, key: str, result: bytes, keep: float = 3600.0) -> None:
        self._check("finish", self.failing)
        if "finish" in self.hanging:
            await trio.sleep_forever()
        await self.effects.finish(call, key, result, keep)

    async def release(self, call: str, key: str) -> None:
        self._check("release", self.failing)
        await self.effects.release(call, key)
        self._check("release", self.late)

    @staticmethod
    def _check(method: str, failing: set[str]) -> None:
        if method in failing:
            raise StoreFailed(f"the store is away: {method}")


def faulty(*, bus: bool = True) -> tuple[Stores, Faulty]:
    stores = memory_stores(bus=MemoryBus() if bus else None)
    assert stores.effects is not None
    effects = Faulty(stores.effects)
    return evolve(stores, effects=effects), effects


@pytest.mark.parametrize("bus", [True, False])
@pytest.mark.parametrize("parked", [0, 10])
async def test_retry_received_by_two_replicas_has_one_effect(parked: int, bus: bool, autojump_clock: MockClock) -> None:
    till = Till()
    stores = memory_stores(bus=MemoryBus() if bus else None)
    async with replicas(buy(till), stores, limits=ServerLimits(parked=parked)) as clients:
        one = await first_round(clients[0])
        for client in clients:
            await client.send(retry(10, "it", one, {"sure": accept("y")}))
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(20)
        began = trio.current_time()
        till.go_on.set()
        answers = [await client.next() for client in clients]
        assert trio.current_time() - began <= (0 if bus else 2)
        # A third delivery, long after.
        await trio.sleep(1000)
        answers.append(await clients[1].ask(retry(12, "it", one, {"sure": accept("y")})))

        assert [text(answer.result) for answer in answers] == ["receipt 1"] * 3  # type: ignore[union-attr]
        assert till.charges == ["ann"]


async def test_lost_bus_message_only_delays_the_result(autojump_clock: MockClock) -> None:
    till = Till()
    bus = MemoryBus()
    stores = memory_stores(bus=bus)
    async with replicas(buy(till), stores) as clients:
        one = await first_round(clients[0])
        for client in clients:
            await client.send(retry(10, "it", one, {"sure": accept("y")}))
            await trio.testing.wait_all_tasks_blocked()
        bus.publish = lambda topic, message: None  # type: ignore[method-assign]
        till.go_on.set()
        assert [text((await client.next()).result) for client in clients] == ["receipt 1"] * 2  # type: ignore[union-attr]


async def test_failed_effect_is_run_by_the_waiting_replica(autojump_clock: MockClock) -> None:
    tries: list[int] = []
    go_on = trio.Event()

    async def charge() -> str:
        tries.append(1)
        if len(tries) == 1:
            await go_on.wait()
            raise OSError("no connection")
        return "paid"

    async def pay(ctx: Context) -> str:
        await ctx.elicit("sure?", str, key="sure")
        return str(await ctx.once(charge))

    async with replicas(pay, memory_stores(bus=MemoryBus())) as clients:
        one = await first_round(clients[0])
        for client in clients:
            await client.send(retry(10, "it", one, {"sure": accept("y")}))
            await trio.testing.wait_all_tasks_blocked()
        go_on.set()
        failed, paid = [(await client.next()).result for client in clients]  # type: ignore[union-attr]
        assert failed["isError"]
        assert (text(paid), len(tries)) == ("paid", 2)


async def test_cancelled_effect_is_run_by_the_waiting_replica(autojump_clock: MockClock) -> None:
    till = Till()
    async with replicas(buy(till), memory_stores(bus=MemoryBus())) as clients:
        one = await first_round(clients[0])
        await clients[0].send(retry(2, "it", one, {"sure": accept("y")}))
        await till.begun.wait()
        await clients[1].send(retry(2, "it", one, {"sure": accept("y")}))
        await clients[0].send(Notification("notifications/cancelled", {"requestId": 2}))
        await trio.sleep(6)
        till.go_on.set()
        assert text((await clients[1].next()).result) == "receipt 1"  # type: ignore[union-attr]
        assert till.charges == ["ann"]


@pytest.mark.parametrize("parked", [0, 10])
async def test_effect_with_a_question_resumes_on_the_other_replica(parked: int, autojump_clock: MockClock) -> None:
    async def effect(ctx: Context) -> str:
        return await ctx.ask("really?", str, key="really")

    async def it(ctx: Context) -> str:
        await ctx.ask("sure?", str, key="sure")
        return str(await ctx.once(effect, ctx, key="effect"))

    stores = memory_stores(bus=MemoryBus())
    async with replicas(it, stores, limits=ServerLimits(parked=parked)) as clients:
        one = await first_round(clients[0])
        two = await clients[0].result(retry(2, "it", one, {"sure": accept("y")}))
        assert keys(two) == ["really"]
        began = trio.current_time()
        assert text(await clients[1].result(retry(2, "it", two, {"really": accept("yes")}))) == "yes"
        assert trio.current_time() == began


async def test_first_round_does_not_query_the_store(autojump_clock: MockClock) -> None:
    till = Till()
    till.go_on.set()
    stores, effects = faulty()
    effects.failing = {"claim", "finish", "release"}

    async def it(ctx: Context) -> str:
        return f"receipt {await ctx.once(till.charge, 'ann')}"

    async with replicas(it, stores, 1) as [client]:
        assert text(await first_round(client)) == "receipt 1"
        assert effects.asked == 0


async def test_no_effect_starts_while_the_store_fails(autojump_clock: MockClock) -> None:
    till = Till()
    till.go_on.set()
    stores, effects = faulty()
    async with replicas(buy(till), stores) as clients:
        one = await first_round(clients[0])
        effects.failing = {"claim", "release"}
        error = await clients[0].error(retry(2, "it", one, {"sure": accept("y")}))
        assert "was not begun" in error.message
        assert error.data == {"retryAfter": 1.0}
        assert till.charges == []
        effects.failing = set()
        assert text(await clients[0].result(retry(3, "it", one, {"sure": accept("y")}))) == "receipt 1"
        assert text(await clients[1].result(retry(3, "it", one, {"sure": accept("y")}))) == "receipt 1"


async def test_result_that_cannot_be_stored_is_stored_later(autojump_clock: MockClock) -> None:
    till = Till()
    till.go_on.set()
    stores, effects = faulty()
    async with replicas(buy(till), stores) as clients:
        one = await first_round(clients[0])
        effects.failing = {"finish"}
        assert text(await clients[0].result(retry(2, "it", one, {"sure": accept("y")}))) == "receipt 1"
        await clients[1].send(retry(2, "it", one, {"sure": accept("y")}))
        await clients[1].expect_nothing(10)
        effects.failing = set()
        assert text((await clients[1].next()).result) == "receipt 1"  # type: ignore[union-attr]
        assert till.charges == ["ann"]


async def test_hanging_store_does_not_delay_the_response(autojump_clock: MockClock) -> None:
    till = Till()
    till.go_on.set()
    stores, effects = faulty()
    async with replicas(buy(till), stores) as clients:
        one = await first_round(clients[0])
        effects.hanging = {"finish"}
        began = trio.current_time()
        assert text(await clients[0].result(retry(2, "it", one, {"sure": accept("y")}))) == "receipt 1"
        assert trio.current_time() - began == pytest.approx(REPORT_SECONDS)
        await trio.sleep(1)
        effects.hanging = set()
        assert text(await clients[1].result(retry(2, "it", one, {"sure": accept("y")}))) == "receipt 1"
        assert till.charges == ["ann"]


async def test_claim_that_cannot_be_released_is_released_later(autojump_clock: MockClock) -> None:
    tries: list[int] = []

    async def charge() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no connection")
        return "paid"

    async def pay(ctx: Context) -> str:
        await ctx.elicit("sure?", str, key="sure")
        return str(await ctx.once(charge))

    stores, effects = faulty()
    async with replicas(pay, stores) as clients:
        one = await first_round(clients[0])
        effects.failing = {"release"}
        assert (await clients[0].result(retry(2, "it", one, {"sure": accept("y")})))["isError"]
        for client in clients:
            await client.send(retry(3, "it", one, {"sure": accept("y")}))
            await client.expect_nothing(5)
        effects.failing = set()
        assert [text((await client.next()).result) for client in clients] == ["paid"] * 2  # type: ignore[union-attr]
        assert len(tries) == 2


async def test_claim_whose_response_was_lost_is_released(autojump_clock: MockClock) -> None:
    till = Till()
    till.go_on.set()
    stores, effects = faulty()
    async with replicas(buy(till), stores) as clients:
        one = await first_round(clients[0])
        effects.late = {"claim"}
        assert "was not begun" in (await clients[0].error(retry(2, "it", one, {"sure": accept("y")}))).message
        effects.late = set()
        assert text(await clients[1].result(retry(2, "it", one, {"sure": accept("y")}))) == "receipt 1"


async def test_repeated_release_does_not_end_a_later_claim(autojump_clock: MockClock) -> None:
    """The first release took effect although its response was lost, and the next delivery has claimed the effect."""
    till = Till()
    tries: list[int] = []

    async def charge() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no connection")
        return await till.charge("ann")

    async def pay(ctx: Context) -> str:
        await ctx.elicit("sure?", str, key="sure")
        return f"receipt {await ctx.once(charge)}"

    stores, effects = faulty()
    async with replicas(pay, stores) as clients:
        one = await first_round(clients[0])
        effects.late = {"release"}
        assert (await clients[0].result(retry(2, "it", one, {"sure": accept("y")})))["isError"]
        await clients[0].send(retry(3, "it", one, {"sure": accept("y")}))
        await trio.sleep(5)
        effects.late = set()
        await trio.sleep(5)
        await clients[1].send(retry(3, "it", one, {"sure": accept("y")}))
        await trio.sleep(5)
        till.go_on.set()
        assert [text((await client.next()).result) for client in clients] == ["receipt 1"] * 2  # type: ignore[union-attr]
        assert till.charges == ["ann"]


async def test_effect_of_a_crashed_replica_is_not_repeated(autojump_clock: MockClock) -> None:
    till = Till()
    till.go_on.set()

    class Lost(Faulty):
        async def claim(self, call: str, key: str) -> EffectClaim:
            return EffectClaim(EffectState.LOST)

    stores, effects = faulty()
    async with replicas(buy(till), evolve(stores, effects=Lost(effects.effects))) as clients:
        one = await first_round(clients[0])
        for id in (2, 3):
            error = await clients[1].error(retry(id, "it", one, {"sure": accept("y")}))
            assert "whether the side effect has happened is not known" in error.message
            assert error.data == {"effect": "unknown"}
        assert till.charges == []


async def test_call_waits_for_another_replica_until_its_deadline(autojump_clock: MockClock) -> None:
    class Busy(Faulty):
        async def claim(self, call: str, key: str) -> EffectClaim:
            self.asked += 1
            return EffectClaim(EffectState.RUNNING)

    till = Till()
    stores, effects = faulty()
    busy = Busy(effects.effects)
    timeouts = Timeouts(request=60, idle=60)
    server = serving(buy(till), stores=evolve(stores, effects=busy), keys=KEYS, timeouts=timeouts)
    async with connected(server, revision=None) as client:
        one = await first_round(client)
        began = trio.current_time()
        error = await client.error(retry(2, "it", one, {"sure": accept("y")}))
        assert "timed out" in error.message
        assert trio.current_time() - began == pytest.approx(60)
        # After 0.05, 0.1, … 1.6 and then every 2 seconds; once more before it follows the bus.
        assert 30 <= busy.asked <= 40
        await trio.sleep(6)
        assert (server.status.working, till.charges) == (0, [])


DYING = """
import sys, trio
sys.path.insert(0, sys.argv[2])
from mcptrio.stores import open_sqlite_stores
from tests.runtime.peers import connected
from tests.runtime.test_round_trips import accept, retry
from tests.runtime.test_shared_effects import KEYS, buy, serving

class Till:
    async def charge(self, customer):
        print("charging", flush=True)
        await trio.sleep_forever()

async def main():
    async with open_sqlite_stores(sys.argv[1]) as stores:
        async with connected(serving(buy(Till()), stores=stores, keys=KEYS), revision=None) as client:
            state = {"requestState": sys.stdin.readline().strip()}
            await client.send(retry(2, "it", state, {"sure": accept("y")}))
            await trio.sleep_forever()

trio.run(main)
"""


async def test_outcome_of_an_effect_is_unknown_after_its_process_was_killed(tmp_path: Path) -> None:
    """Its own clients, and those of the other process that wait for it, get an error that the outcome is unknown."""
    file, root = str(tmp_path / "shared.db"), str(ROOT)
    till = Till()
    till.go_on.set()
    with trio.fail_after(60):
        async with open_sqlite_stores(file) as stores, replicas(buy(till), stores, 1) as [client]:
            one = await first_round(client)
            async with trio.open_nursery() as nursery:
                command = [sys.executable, "-c", DYING, file, root]
                run = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
                process = await nursery.start(run)
                await process.stdin.send_all(one["requestState"].encode() + b"\n")
                received = b""
                while not received.endswith(b"\n"):
                    received += await process.stdout.receive_some()
                assert received == b"charging\n"
                await client.send(retry(2, "it", one, {"sure": accept("y")}))
                await client.expect_nothing(0.5)
                process.kill()
                await process.wait()
                answer: Any = await client.next()
                assert "is not known" in answer.message
                assert till.charges == []
                await process.stdin.aclose()
