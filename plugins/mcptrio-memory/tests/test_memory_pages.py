"""Pages: each entry once, and no page over the size limit."""

from __future__ import annotations

from typing import Any

import pytest


async def pages(call, client, tool: str, **arguments: Any) -> list[dict[str, Any]]:
    found = [await call(client, tool, **arguments)]
    while found[-1]["next_cursor"] is not None:
        assert found[-1]["truncated"] is True
        found.append(await call(client, tool, **arguments, cursor=found[-1]["next_cursor"]))
        assert len(found) < 200
    assert found[-1]["truncated"] is False
    return found


@pytest.fixture
async def star(open_memory, call):
    """A hub with 60 relations, a node with 100 observations, and a relation whose entities do not exist."""
    async with open_memory(max_answer_bytes=2000, limit=10) as client:
        spokes = [{"name": f"n{number}", "entity_type": "spoke", "observations": ["text"]} for number in range(60)]
        hub = {"name": "hub", "entity_type": "hub", "observations": [f"text {number}" for number in range(100)]}
        await call(client, "create_entities", entities=[*spokes[:30], hub, *spokes[30:]])
        await call(
            client,
            "create_relations",
            relations=[{"from": "hub", "to": spoke["name"], "relation_type": "holds"} for spoke in spokes],
        )
        await call(client, "import_graph", jsonl='{"type":"relation","from":"x","to":"y","relationType":"loose"}')
        yield client


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_graph", {}),
        ("read_graph", {"limit": 1}),
        ("search_nodes", {"query": "text"}),
        ("search_nodes", {"query": "spoke", "limit": 7}),
        ("open_nodes", {"names": ["n3", "hub", *(f"n{number}" for number in range(60))], "limit": 1000}),
    ],
)
async def test_pages_contain_each_entry_once(star, call, tool: str, arguments: dict[str, Any]) -> None:
    found = await pages(call, star, tool, **arguments)

    observations: dict[str, list[str]] = {}
    for page in found:
        size = sum(len(each["name"]) + sum(map(len, each["observations"])) for each in page["entities"])
        assert size < 2000
        assert len(page["entities"]) <= arguments.get("limit", 10)
        for each in page["entities"]:
            observations.setdefault(each["name"], []).extend(each["observations"])
    relations = [each["to"] for page in found for each in page["relations"]]
    expected = {f"n{number}": ["text"] for number in range(60)}
    if arguments.get("query") != "spoke":
        expected["hub"] = [f"text {number}" for number in range(100)]
    assert observations == expected
    assert sorted(relations) == sorted([f"n{number}" for number in range(60)] + (["y"] if tool == "read_graph" else []))
    assert {page["total"] for page in found} == {len(expected)}


async def test_fields_of_a_page_can_be_selected(star, call) -> None:
    names = await call(star, "read_graph", fields=["name"], limit=3)
    some = await call(star, "open_nodes", names=["n1"], fields=["entity_type", "relations"])
    observations = await call(star, "open_nodes", names=["n1"], fields=["observations"])

    assert names["entities"] == [{"name": "n0"}, {"name": "n1"}, {"name": "n2"}]
    assert names["relations"] == []
    assert some["entities"] == [{"name": "n1", "entity_type": "spoke"}]
    assert some["relations"] == [{"from": "hub", "to": "n1", "relation_type": "holds"}]
    assert observations["entities"] == [{"name": "n1", "observations": ["text"]}]


async def test_deletion_between_two_pages_does_not_shift_the_cursor(star, call) -> None:
    first = await call(star, "read_graph", fields=["name"], limit=5)
    await call(star, "delete_entities", entity_names=["n0", "n5"])
    second = await call(star, "read_graph", fields=["name"], limit=2, cursor=first["next_cursor"])

    assert [each["name"] for each in second["entities"]] == ["n6", "n7"]


async def test_observation_larger_than_a_page_is_returned_completely(open_memory, call) -> None:
    async with open_memory(max_answer_bytes=1000) as client:
        await call(
            client,
            "create_entities",
            entities=[{"name": "a", "entity_type": "t", "observations": ["x" * 5000, "y" * 5000, "z"]}],
        )
        found = await pages(call, client, "read_graph")

    assert [len(page["entities"][0]["observations"]) for page in found] == [1, 1, 1]


@pytest.mark.parametrize("cursor", ["x", "AAAA", "é", "c" * 36, "cw" + "_" * 32])
async def test_invalid_cursor_is_refused(star, refusal, cursor: str) -> None:
    assert "at `cursor`" in await refusal(star, "read_graph", cursor=cursor)


async def test_cursor_of_another_tool_is_refused(star, call, refusal) -> None:
    cursor = (await call(star, "read_graph"))["next_cursor"]
    assert "same tool at `cursor`" in await refusal(star, "search_nodes", query="x", cursor=cursor)
