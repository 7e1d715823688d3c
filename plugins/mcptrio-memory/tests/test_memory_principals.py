"""Each user has a private graph, which others cannot read, change or watch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from mcptrio_memory import Config

from mcptrio import Client, MCPError, Server, connect
from mcptrio.abc import Principal
from mcptrio.client import Change
from mcptrio.serving import ServerSettings, memory_channel_pair

from .conftest import Installed

ANN = Principal(subject="ann", issuer="https://a", client_id="one")
ALSO_ANN = Principal(subject="ann", issuer="https://a", client_id="two")
OTHER_ANN = Principal(subject="ann", issuer="https://b")
BOB = Principal(subject="bob", issuer="https://a")


@asynccontextmanager
async def clients(
    file: Path, *principals: Principal | None, revision: str | None = None
) -> AsyncIterator[list[Client]]:
    config = Config(file=file, namespaces="principal", namespace="mine")
    server = Server(plugins=[Installed(config)], settings=ServerSettings(strict=True))

    with trio.fail_after(60):
        async with server.open() as running, trio.open_nursery() as nursery, AsyncExitStack() as stack:
            made = []
            for principal in principals:
                ours, theirs = memory_channel_pair()
                nursery.start_soon(partial(running.serve, theirs, principal=principal))
                made.append(await stack.enter_async_context(connect(ours, revision=revision)))
            yield made
            nursery.cancel_scope.cancel()


def entity(name: str) -> dict[str, Any]:
    return {"name": name, "entity_type": "t", "observations": [f"about {name}"]}


async def names(client: Client, call: Any) -> set[str]:
    graph = await call(client, "read_graph")
    return {each["name"] for each in graph["entities"]}


async def test_each_principal_has_its_own_graph(file: Path, call: Any, refusal: Any) -> None:
    async with clients(file, ANN, ALSO_ANN, OTHER_ANN, BOB, None) as (ann, also, other, bob, nobody):
        await call(ann, "create_entities", entities=[entity("hers")])
        await call(bob, "create_entities", entities=[entity("his")], namespace="mine")
        assert [await names(each, call) for each in (ann, also, other, bob)] == [{"hers"}, {"hers"}, set(), {"his"}]

        assert (await call(bob, "search_nodes", query="hers"))["entities"] == []
        assert (await call(bob, "open_nodes", names=["hers"]))["entities"] == []
        assert "hers" not in (await call(bob, "export_graph"))["jsonl"]
        stats = await call(bob, "graph_stats")
        assert (stats["namespace"], stats["namespaces"], stats["entities"]) == ("mine", ["mine"], 1)
        await call(bob, "delete_entities", entity_names=["hers"])
        assert await names(ann, call) == {"hers"}

        caller = "principal:" + "0" * 32
        for named in ("default", "*", "principal", caller):
            message = await refusal(bob, "read_graph", namespace=named)
            assert "each user has only one" in message
        assert "expected an authenticated user" in await refusal(nobody, "read_graph")
        assert "expected an authenticated user" in await refusal(nobody, "create_entities", entities=[entity("x")])

    # Each graph stays with its principal.
    async with clients(file, BOB, ANN) as (bob, ann):
        assert [await names(each, call) for each in (ann, bob)] == [{"hers"}, {"his"}]


async def test_resources_and_completion_use_the_callers_graph(file: Path, call: Any) -> None:
    async with clients(file, ANN, BOB, None) as (ann, bob, nobody):
        await call(ann, "create_entities", entities=[entity("hers")])
        for uri in ("memory://node/hers", "memory://node?name=hers&namespace=mine"):
            assert "about hers" in (await ann.read_resource(uri)).contents[0].text  # type: ignore[union-attr]
            for client in (bob, nobody):
                with pytest.raises(MCPError, match="not found"):
                    await client.read_resource(uri)
        for uri in ("memory://knowledge-graph", "memory://export"):
            assert "hers" not in (await bob.read_resource(uri)).contents[0].text  # type: ignore[union-attr]
            with pytest.raises(MCPError, match="not found"):
                await nobody.read_resource(uri)
        found = [
            (await each.complete("resource", "memory://node/{name}", "name", "h")).values for each in (ann, bob, nobody)
        ]
        assert found == [("hers",), (), ()]
        spaces = await ann.complete("resource", "memory://node{?name,namespace}", "namespace", "")
        assert spaces.values == ("mine",)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_change_notifies_the_owner_of_the_graph_only(file: Path, call: Any, revision: str) -> None:
    graph, node = "memory://knowledge-graph", "memory://node/hers"
    async with clients(file, ANN, ALSO_ANN, BOB, revision=revision) as (ann, also, bob):
        async with also.subscribe([graph, node]) as hers, bob.subscribe([graph, node]) as his:
            received: list[Change] = []

            async def listen() -> None:
                while True:
                    received.append(await anext(his))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(listen)
                await call(ann, "create_entities", entities=[entity("hers")])
                assert {(await anext(hers)).uri, (await anext(hers)).uri} == {graph, node}
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert received == []
                await call(bob, "create_entities", entities=[entity("hers")])
                while len(received) < 2:
                    await trio.testing.wait_all_tasks_blocked()
                assert {each.uri for each in received} == {graph, node}
                nursery.cancel_scope.cancel()
