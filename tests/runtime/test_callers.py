"""The same caller in handlers, in middleware, and for change notifications."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, evolve, field

import mcptrio
from mcptrio import Client, Context, PluginSetup, RequestView, Server, hookimpl, resource, tool
from mcptrio.abc import Principal
from mcptrio.client import Change
from mcptrio.serving import RunningServer, memory_channel_pair

__all__: list[str] = []

NEW, OLD = "2026-07-28", "2025-11-25"
ANN = Principal(subject="ann", issuer="https://a", client_id="one", scopes=frozenset({"read"}))


@define(eq=False)
class Desk:
    seen: list[RequestView] = field(factory=list)

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        async def look(request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
            self.seen.append(request)
            return await proceed()

        server.add_middleware(look)

    @tool
    async def who(self, ctx: Context) -> str:
        return ctx.caller

    @tool
    async def change(self, ctx: Context) -> str:
        ctx.notify_resource_updated("desk://paper", caller=ctx.caller)
        return "changed"

    @tool
    async def ring(self, ctx: Context) -> str:
        ctx.notify_resource_updated("desk://bell")
        return "rung"

    @resource("desk://paper")
    async def paper(self) -> str:
        return ""

    @resource("desk://bell")
    async def bell(self) -> str:
        return ""


@define
class Office:
    running: RunningServer
    nursery: trio.Nursery
    desk: Desk

    @asynccontextmanager
    async def client(self, principal: Principal | None = None, revision: str = NEW) -> AsyncIterator[Client]:
        ours, theirs = memory_channel_pair()
        self.nursery.start_soon(lambda: self.running.serve(theirs, principal=principal))
        async with mcptrio.connect(ours, revision=revision) as client:
            yield client


@asynccontextmanager
async def office() -> AsyncIterator[Office]:
    desk = Desk()
    with trio.fail_after(30):
        server = Server(plugins=[desk])
        async with server.open() as running, trio.open_nursery() as nursery:
            yield Office(running, nursery, desk)
            nursery.cancel_scope.cancel()


async def who(client: Client) -> str:
    return (await client.call_tool("who")).content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("revision", [NEW, OLD])
async def test_caller_is_the_principal_or_the_session(revision: str) -> None:
    same = (ANN, evolve(ANN, client_id="two"), evolve(ANN, scopes=frozenset()))
    others = (evolve(ANN, subject="bob"), evolve(ANN, issuer="https://b"), evolve(ANN, issuer=None), None, None)
    async with office() as here:
        results: list[str] = []
        for principal in (*same, *others):
            async with here.client(principal, revision) as client:
                results.append(await who(client))
                assert await who(client) == results[-1], "it stays the same"
        assert len(set(results[:3])) == 1
        assert len({*results}) == 1 + len(others)
        assert [each.partition(":")[0] for each in results] == ["principal"] * 6 + ["session"] * 2
        assert not [each for each in results if "ann" in each or "https" in each]
        assert [view.caller for view in here.desk.seen if view.name == "who"] == [
            each for each in results for _ in range(2)
        ]


async def test_caller_ids_of_different_issuer_and_subject_pairs_differ() -> None:
    async with office() as here:
        callers = []
        for issuer, subject in (("a", "b"), (None, "a b"), ("a ", "b"), ("a", " b"), ("1 a", "b")):
            async with here.client(Principal(subject=subject, issuer=issuer)) as client:
                callers.append(await who(client))
        assert len(set(callers)) == len(callers)


@pytest.mark.parametrize("revision", [NEW, OLD])
async def test_change_for_one_caller_notifies_that_caller_only(revision: str) -> None:
    paper, bell = "desk://paper", "desk://bell"
    async with (
        office() as here,
        here.client(ANN, revision) as ann,
        here.client(evolve(ANN, client_id="two"), NEW) as also,
        here.client(evolve(ANN, subject="bob"), revision) as bob,
        here.client(None, revision) as anonymous,
        ann.subscribe([paper, bell]) as hers,
        also.subscribe([paper, bell]) as hers_too,
        bob.subscribe([paper, bell]) as his,
        anonymous.subscribe([paper, bell]) as others,
    ):
        for client, message in ((ann, (hers, hers_too)), (anonymous, (others,))):
            await client.call_tool("change")
            await client.call_tool("ring")
            for changes in (hers, hers_too, his, others):
                # A subscriber who does not receive the change of the paper receives that of the bell first.
                first = await anext(changes)
                assert first == Change("resource", paper if changes in message else bell)
                if changes in message:
                    assert await anext(changes) == Change("resource", bell)
