"""Resources: read, completed, and their changes notified in every revision."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from mcptrio import MCPError

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
ENTITIES = [
    {"name": "Bob", "entity_type": "person", "observations": ["tea"]},
    {"name": "a/b c", "entity_type": "file", "observations": []},
]


async def read(client, uri: str) -> Any:
    return json.loads((await client.read_resource(uri)).contents[0].text)


async def test_graph_and_nodes_are_readable_as_resources(open_memory, call) -> None:
    async with open_memory(namespaces=("home",)) as client:
        await call(client, "create_entities", entities=ENTITIES)
        await call(client, "create_entities", entities=ENTITIES[:1], namespace="home")
        await call(client, "create_relations", relations=[{"from": "Bob", "to": "a/b c", "relation_type": "edits"}])
        listed = {str(each.uri) async for each in client.resources()}
        graph = await read(client, "memory://knowledge-graph")
        home = await read(client, "memory://knowledge-graph?namespace=home")
        node = await read(client, "memory://node/Bob")
        slash = await read(client, "memory://node?name=a%2Fb%20c")
        away = await read(client, "memory://node?name=Bob&namespace=home")
        for uri in ("memory://node/Ann", "memory://node", "memory://knowledge-graph?namespace=secret"):
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource(uri)

    assert listed == {"memory://knowledge-graph", "memory://export"}
    assert graph["entities"] == ENTITIES
    assert len(graph["relations"]) == 1
    assert home["entities"] == away["entities"] == node["entities"] == ENTITIES[:1]
    assert slash["entities"] == ENTITIES[1:]
    assert node["relations"] == slash["relations"] == graph["relations"]
    assert away["relations"] == []


async def test_resource_is_truncated_with_a_notice(open_memory, call) -> None:
    async with open_memory(max_resource_bytes=1000) as client:
        await call(
            client,
            "create_entities",
            entities=[{"name": f"e{n}", "entity_type": "t", "observations": ["x" * 100]} for n in range(50)],
        )
        graph = await read(client, "memory://knowledge-graph")
        rest = await call(client, "read_graph", cursor=graph["next_cursor"])
        with pytest.raises(MCPError, match="larger than 1000 bytes"):
            await client.read_resource("memory://export")

    assert graph["truncated"] is True
    assert len(graph["entities"]) + len(rest["entities"]) == 50


async def test_names_and_namespaces_are_completed(open_memory, call) -> None:
    async with open_memory(namespaces=("home",)) as client:
        await call(client, "create_entities", entities=ENTITIES)

        async def complete(uri: str, argument: str, value: str) -> tuple[str, ...]:
            return (await client.complete("resource", uri, argument, value)).values

        assert await complete("memory://node/{name}", "name", "bo") == ("Bob",)
        assert set(await complete("memory://node{?name,namespace}", "name", "b")) == {"Bob", "a/b c"}
        assert await complete("memory://node/{name}", "name", "a") == ()
        assert set(await complete("memory://node{?name,namespace}", "namespace", "")) == {"default", "home"}
        assert await complete("memory://knowledge-graph{?namespace}", "namespace", "h") == ("home",)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_change_is_notified_in_every_revision(open_memory, call, revision: str) -> None:
    relations = [{"from": "Bob", "to": "a/b c", "relation_type": "edits"}]
    changes = {
        "create_entities": {"entities": ENTITIES},
        "create_relations": {"relations": relations},
        "add_observations": {"observations": [{"entity_name": "Bob", "contents": ["coffee"]}]},
        "delete_observations": {"deletions": [{"entity_name": "Bob", "observations": ["tea"]}]},
        "delete_relations": {"relations": relations},
        "import_graph": {"jsonl": '{"type":"entity","name":"Bob","entityType":"t","observations":["milk"]}'},
        "delete_entities": {"entity_names": ["Bob"]},
    }
    graph, node = "memory://knowledge-graph", "memory://node?name=Bob&namespace=default"
    with trio.fail_after(60):
        async with open_memory(revision, watch_interval=3600) as client:
            async with client.subscribe([graph, node, "memory://node/Nobody"]) as notifications:
                for tool, arguments in changes.items():
                    await call(client, tool, **arguments)
                    heard = {(await anext(aiter(notifications))).uri, (await anext(aiter(notifications))).uri}
                    assert heard == {graph, node}, tool


async def test_call_without_a_change_notifies_no_client(open_memory, call) -> None:
    graph = "memory://knowledge-graph"
    with trio.fail_after(60):
        async with open_memory(watch_interval=3600) as client, client.subscribe([graph]) as changes:
            await call(client, "delete_entities", entity_names=["nobody"])
            with trio.move_on_after(0.2) as scope:
                await anext(aiter(changes))
    assert scope.cancelled_caught
