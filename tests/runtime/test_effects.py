"""Side effects in ``ctx.once``: one for each call, however often and wherever its handler is replayed."""

from __future__ import annotations

from datetime import date
from math import nan
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing
from attrs import define
from trio.testing import MockClock

from mcptrio import Context
from mcptrio.protocol.messages import Notification
from mcptrio.runtime.effects import MAX_BYTES
from mcptrio.serving import ServerLimits
from tests.runtime.peers import connected, tool
from tests.runtime.test_round_trips import accept, first_round, keys, retry, serving, text

__all__: list[str] = []


class Pair(NamedTuple):
    left: int
    right: int


@define
class Customer:
    number: int


class Till:
    """Counts the charges.

    Attributes:
        begun: Set when a charge has begun.
        go_on: A charge waits for it.
    """

    def __init__(self) -> None:
        self.charges: list[Any] = []
        self.begun = trio.Event()
        self.go_on = trio.Event()

    async def charge(self, customer: Any) -> int:
        self.begun.set()
        await self.go_on.wait()
        self.charges.append(customer)
        return len(self.charges)


@pytest.mark.parametrize("parked", [0, 10])
async def test_retry_delivered_twice_has_one_effect(parked: int, autojump_clock: MockClock) -> None:
    till = Till()

    async def buy(ctx: Context) -> str:
        await ctx.elicit("sure?", str, key="sure")
        return f"receipt {await ctx.once(till.charge, 'ann')}"

    async with connected(serving(buy, limits=ServerLimits(parked=parked)), revision=None) as client:
        one = await first_round(client)
        for id in (10, 11):
            await client.send(retry(id, "it", one, {"sure": accept("y")}))
            await trio.testing.wait_all_tasks_blocked()
        till.go_on.set()
        answers = [await client.next() for _ in range(2)]
        # A third delivery, long after.
        await trio.sleep(1000)
        answers.append(await client.ask(retry(12, "it", one, {"sure": accept("y")})))

        assert [text(answer.result) for answer in answers] == ["receipt 1"] * 3  # type: ignore[union-attr]
        assert till.charges == ["ann"]


async def test_effect_with_a_result_over_the_cache_size_runs_once(autojump_clock: MockClock) -> None:
    till = Till()

    async def fetch() -> str:
        await till.charge("a page")
        return "x" * (MAX_BYTES + 1)

    async def buy(ctx: Context) -> int:
        await ctx.elicit("sure?", str, key="sure")
        return len(await ctx.once(fetch))

    async with connected(serving(buy, limits=ServerLimits(parked=0)), revision=None) as client:
        one = await first_round(client)
        for id in (10, 11):
            await client.send(retry(id, "it", one, {"sure": accept("y")}))
            await trio.testing.wait_all_tasks_blocked()
        till.go_on.set()
        answers = [await client.next() for _ in range(2)]

        assert [text(answer.result) for answer in answers] == [str(MAX_BYTES + 1)] * 2  # type: ignore[union-attr]
        assert till.charges == ["a page"]


async def test_each_of_two_calls_has_its_own_effect(autojump_clock: MockClock) -> None:
    till = Till()
    till.go_on.set()

    async def buy(ctx: Context) -> str:
        await ctx.elicit("sure?", str, key="sure")
        return f"receipt {await ctx.once(till.charge, 'ann')}"

    async with connected(serving(buy), revision=None) as client:
        asked = [await first_round(client, id) for id in (1, 2)]
        for id, one in enumerate(asked, 10):
            await client.result(retry(id, "it", one, {"sure": accept("y")}))
        assert till.charges == ["ann", "ann"]


async def test_failed_effect_is_retried_by_the_next_delivery(autojump_clock: MockClock) -> None:
    tries: list[int] = []

    async def charge() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no connection")
        return "paid"

    async def buy(ctx: Context) -> str:
        await ctx.elicit("sure?", str, key="sure")
        return str(await ctx.once(charge))

    async with connected(serving(buy), revision=None) as client:
        one = await first_round(client)
        assert (await client.result(retry(2, "it", one, {"sure": accept("y")})))["isError"]
        assert text(await client.result(retry(3, "it", one, {"sure": accept("y")}))) == "paid"
        assert text(await client.result(retry(4, "it", one, {"sure": accept("y")}))) == "paid"
        assert len(tries) == 2


async def test_effect_of_a_cancelled_call_completes_for_the_next_delivery(autojump_clock: MockClock) -> None:
    till = Till()

    async def buy(ctx: Context) -> str:
        await ctx.elicit("sure?", str, key="sure")
        return f"receipt {await ctx.once(till.charge, 'ann')}"

    async with connected(serving(buy), revision=None) as client:
        one = await first_round(client)
        await client.send(retry(2, "it", one, {"sure": accept("y")}))
        await till.begun.wait()
        await client.send(Notification("notifications/cancelled", {"requestId": 2}))
        await trio.sleep(1)
        till.go_on.set()
        assert text(await client.result(retry(3, "it", one, {"sure": accept("y")}))) == "receipt 1"
        assert till.charges == ["ann"]


async def test_effect_of_a_cancelled_call_is_cancelled_after_its_timeout(autojump_clock: MockClock) -> None:
    till = Till()

    async def buy(ctx: Context) -> str:
        return f"receipt {await ctx.once(till.charge, 'ann')}"

    server = serving(buy)
    async with connected(server, revision=None) as client:
        await client.send(tool(1, "it", modern=True))
        await till.begun.wait()
        await client.send(Notification("notifications/cancelled", {"requestId": 1}))
        await trio.sleep(4)
        assert server.status.working == 1
        await trio.sleep(2)
        assert server.status.working == 0


async def test_timeout_of_the_author_applies_inside_an_effect(autojump_clock: MockClock) -> None:
    till = Till()

    async def buy(ctx: Context) -> str:
        with trio.move_on_after(2):
            await ctx.once(till.charge, "ann")
        return f"{trio.current_time() - start:g}"

    async with connected(serving(buy), revision=None) as client:
        start = trio.current_time()
        assert text(await first_round(client)) == "2"


@pytest.mark.parametrize("parked", [0, 1, 10])
async def test_client_request_is_sent_after_effects_of_other_tasks_have_ended(
    parked: int, autojump_clock: MockClock
) -> None:
    charges: list[int] = []

    async def charge() -> int:
        await trio.sleep(1)
        charges.append(1)
        return len(charges)

    async def buy(ctx: Context) -> str:
        messages: list[str] = []

        async def ask() -> None:
            messages.append(await ctx.ask("sure?", str, key="sure"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            receipt = await ctx.once(charge)
        return f"{messages[0]} {receipt}"

    async with connected(serving(buy, limits=ServerLimits(parked=parked)), revision=None) as client:
        asked = [await first_round(client, id) for id in (1, 2)]
        assert len(charges) == 2
        texts = [
            text(await client.result(retry(10 + i, "it", one, {"sure": accept("y")}))) for i, one in enumerate(asked)
        ]
        assert (texts, len(charges)) == (["y 1", "y 2"], 2)


@pytest.mark.parametrize("parked", [0, 10])
async def test_no_effect_starts_while_a_client_request_is_pending(parked: int, autojump_clock: MockClock) -> None:
    """The state that the client holds would not contain it."""
    till = Till()
    till.go_on.set()

    async def buy(ctx: Context) -> str:
        receipts: list[int] = []

        async def later() -> None:
            await trio.sleep(1)
            receipts.append(await ctx.once(till.charge, "ann"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(later)
            await ctx.elicit("sure?", str, key="sure")
        return f"receipt {receipts[0]}"

    async with connected(serving(buy, limits=ServerLimits(parked=parked)), revision=None) as client:
        one = await first_round(client)
        await trio.sleep(10)
        assert till.charges == []
        assert text(await client.result(retry(2, "it", one, {"sure": accept("y")}))) == "receipt 1"
        assert till.charges == ["ann"]


async def test_effect_can_send_a_request_to_the_client(autojump_clock: MockClock) -> None:
    async def effect(ctx: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.checkpoint)
            return await ctx.ask("sure?", str, key="sure")

    async def buy(ctx: Context) -> str:
        async with trio.open_nursery():
            return str(await ctx.once(effect, ctx, key="effect"))

    async with connected(serving(buy), revision=None) as client:
        one = await first_round(client)
        assert keys(one) == ["sure"]
        assert text(await client.result(retry(2, "it", one, {"sure": accept("y")}))) == "y"


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
async def test_effect_with_an_object_argument_needs_a_key(revision: str | None, autojump_clock: MockClock) -> None:
    till = Till()
    till.go_on.set()
    failed: list[BaseException] = []

    async def buy(ctx: Context) -> str:
        try:
            await ctx.once(till.charge, Customer(7))
        except TypeError as error:
            failed.append(error)
        return str(await ctx.once(till.charge, Customer(7), key="charge"))

    async with connected(serving(buy), revision=revision) as client:
        await client.result(tool(1, "it", modern=revision is None))
        assert till.charges == [Customer(7)]
        assert "charge, or a key=..." in str(failed[0])


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
@pytest.mark.parametrize(
    "value", [Customer(7), date(2026, 1, 1), nan, {1, 2}, 2**70, "\ud800", b"x", (1, 2), {3: "a"}, [Pair(1, 2)]]
)
async def test_effect_result_that_is_not_json_is_refused(
    value: Any, revision: str | None, autojump_clock: MockClock
) -> None:
    failed: list[BaseException] = []

    async def effect() -> Any:
        return value

    async def it(ctx: Context) -> str:
        try:
            await ctx.once(effect)
        except TypeError as error:
            failed.append(error)
        return ""

    async with connected(serving(it), revision=revision) as client:
        await client.result(tool(1, "it", modern=revision is None))
        assert "expected JSON values as the result of" in str(failed[0])


@pytest.mark.parametrize("parked", [0, 10])
async def test_effect_result_is_equal_in_a_replay(parked: int, autojump_clock: MockClock) -> None:
    got: list[Any] = []

    async def effect() -> Any:
        return {"pair": [1, 2], "3": [True, None]}

    async def it(ctx: Context) -> str:
        got.append(await ctx.once(effect))
        return await ctx.ask("sure?", str, key="sure")

    async with connected(serving(it, limits=ServerLimits(parked=parked)), revision=None) as client:
        one = await first_round(client)
        await client.result(retry(2, "it", one, {"sure": accept("y")}))
        assert {str(each) for each in got} == {"{'pair': [1, 2], '3': [True, None]}"}
