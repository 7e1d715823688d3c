"""The nine tools of the reference server: names, rules, messages."""

from __future__ import annotations

import time
from typing import Any

import pytest
from mcptrio_memory.typos import close_words

HINTS = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")


def entity(name: str, kind: str = "thing", *observations: str) -> dict[str, Any]:
    return {"name": name, "entity_type": kind, "observations": list(observations)}


def relation(source: str, target: str, kind: str = "knows") -> dict[str, Any]:
    return {"from": source, "to": target, "relation_type": kind}


async def test_tools_of_the_reference_are_listed_with_titles_hints_and_schemas(open_memory) -> None:
    async with open_memory() as client:
        tools = {tool.name: tool async for tool in client.tools()}

    assert set(tools) == {
        *("create_entities", "create_relations", "add_observations"),
        *("delete_entities", "delete_observations", "delete_relations"),
        *("read_graph", "search_nodes", "open_nodes"),
        *("graph_stats", "export_graph", "import_graph"),
    }
    for tool in tools.values():
        assert tool.title
        assert tool.output_schema["type"] == "object"
        assert all(getattr(tool.annotations, hint) is not None for hint in HINTS)
        reads = tool.name.startswith(("read", "search", "open", "graph", "export"))
        assert tool.annotations.read_only_hint is reads
        assert tool.annotations.destructive_hint is tool.name.startswith("delete")
        assert tool.annotations.open_world_hint is False


async def test_definitions_take_few_tokens(open_memory, check_tokens) -> None:
    async with open_memory() as client:
        await check_tokens(client, 1235)


async def test_text_shows_each_result_in_lines(open_memory) -> None:
    async with open_memory() as client:

        async def text(name: str, **arguments: Any) -> str:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            return result.content[0].text

        entities = [entity("Bob", "person", "likes tea", "is tall"), entity("Ann", "person")]
        assert await text("create_entities", entities=entities) == "created: Bob, Ann"
        assert await text("create_entities", entities=entities) == "created: nothing, all already existed"
        assert await text("create_relations", relations=[relation("Bob", "Ann")]) == "created: Bob -> knows -> Ann"
        more = [{"entity_name": "Ann", "contents": ["swims"]}]
        assert await text("add_observations", observations=more) == "observations added: Ann +1"
        whole = "Bob (person)\n- likes tea\n- is tall\nAnn (person)\n- swims\nBob -> knows -> Ann"
        assert await text("read_graph") == whole
        assert await text("search_nodes", query="TEA", fields=["name"]) == "Bob"
        assert await text("open_nodes", names=["Eve"]) == "no entities"
        assert (await text("read_graph", limit=1, fields=["name"])).startswith(
            "Bob\n[2 entities in all; continue with cursor="
        )
        assert await text("graph_stats") == (
            "default: 2 entities, 1 relations, 3 observations\nentities: person 2\nrelations: knows 1\n"
            "namespaces: default"
        )
        assert (await text("export_graph")).startswith('{"type":"entity","name":"Bob"')
        assert await text("import_graph", jsonl="{") == (
            "1 lines: 0 entities and 0 relations created, 0 observations added, 1 lines skipped\n"
            "line 1: Input data was truncated"
        )
        assert await text("delete_entities", entity_names=["Bob"]) == "Entities deleted successfully"


async def test_default_page_fits_the_context_of_a_model(open_memory, call) -> None:
    async with open_memory() as client:
        many = [entity(f"m{n}", "t", *(f"{n} {m} " * 99 for m in range(9))) for n in range(50)]
        await call(client, "create_entities", entities=many)
        text = (await client.call_tool("read_graph")).content[0].text

    assert 30_000 < len(text) < 40_000
    assert "continue with cursor=" in text.splitlines()[-1]


async def test_read_only_setting_lists_no_writing_tools(open_memory) -> None:
    async with open_memory(read_only=True) as client:
        assert {tool.name async for tool in client.tools()} == {
            "read_graph",
            "search_nodes",
            "open_nodes",
            "graph_stats",
            "export_graph",
        }


async def test_create_adds_and_returns_only_new_entities(open_memory, call) -> None:
    async with open_memory() as client:
        first = await call(client, "create_entities", entities=[entity("Bob", "person", "tea", "tea"), entity("Bob")])
        second = await call(client, "create_entities", entities=[entity("Bob", "robot"), entity("Ann")])
        graph = await call(client, "read_graph")

    assert first == {"entities": [entity("Bob", "person", "tea")]}
    assert second == {"entities": [entity("Ann")]}
    assert graph["entities"] == [entity("Bob", "person", "tea"), entity("Ann")]
    assert graph["truncated"] is False
    assert graph["total"] == 2


async def test_relations_need_both_ends_and_are_unique(open_memory, call, refusal) -> None:
    async with open_memory() as client:
        await call(client, "create_entities", entities=[entity("a"), entity("b")])
        created = await call(client, "create_relations", relations=[relation("a", "b")] * 2)
        again = await call(client, "create_relations", relations=[relation("a", "b"), relation("b", "a")])
        message = await refusal(client, "create_relations", relations=[relation("a", "a"), relation("a", "zed")])
        graph = await call(client, "read_graph")

    assert created == {"relations": [relation("a", "b")]}
    assert again == {"relations": [relation("b", "a")]}
    assert message == "Entity with name zed not found; nothing was changed"
    assert graph["relations"] == [relation("a", "b"), relation("b", "a")]


async def test_add_observations_fails_as_a_whole_for_an_unknown_entity(open_memory, call, refusal) -> None:
    additions = [{"entity_name": "a", "contents": ["x", "y", "x"]}]
    async with open_memory() as client:
        await call(client, "create_entities", entities=[entity("a", "t", "y")])
        message = await refusal(
            client, "add_observations", observations=[*additions, {"entity_name": "zed", "contents": ["x"]}]
        )
        between = await call(client, "open_nodes", names=["a"])
        added = await call(client, "add_observations", observations=additions)
        again = await call(client, "add_observations", observations=additions)

    assert "zed not found" in message
    assert between["entities"] == [entity("a", "t", "y")]
    assert added == {"results": [{"entity_name": "a", "added_observations": ["x"]}]}
    assert again == {"results": [{"entity_name": "a", "added_observations": []}]}


async def test_deletion_is_idempotent_and_reports_missing_items(open_memory, call) -> None:
    async with open_memory() as client:
        await call(client, "create_entities", entities=[entity("a", "t", "x", "y"), entity("b"), entity("c")])
        await call(client, "create_relations", relations=[relation("a", "b"), relation("b", "c")])

        async def message(name: str, **arguments: Any) -> str:
            answer = await call(client, name, **arguments)
            assert answer["success"] is True
            return answer["message"]

        observations = {"deletions": [{"entity_name": "a", "observations": ["x"]}]}
        assert await message("delete_observations", **observations) == "Observations deleted successfully"
        assert await message("delete_observations", **observations) == "Deleted 0 of 1 observations."
        assert (
            await message("delete_observations", deletions=[{"entity_name": "zed", "observations": ["x"]}])
            == "Deleted 0 of 1 observations. Entities not found: zed"
        )
        relations = {"relations": [relation("a", "b")]}
        assert await message("delete_relations", **relations) == "Relations deleted successfully"
        assert await message("delete_relations", **relations) == "Deleted 0 of 1 relations. The rest matched nothing."
        assert await message("delete_entities", entity_names=["b"]) == "Entities deleted successfully"
        assert await message("delete_entities", entity_names=["b", "c"]) == "Deleted 1 of 2 entities. Not found: b"
        graph = await call(client, "read_graph")

    assert graph["entities"] == [entity("a", "t", "y")]
    assert graph["relations"] == []


async def test_open_and_search_show_relations_with_one_matching_end(open_memory, call) -> None:
    async with open_memory() as client:
        await call(client, "create_entities", entities=[entity("a", "t", "green"), entity("b"), entity("c")])
        await call(client, "create_relations", relations=[relation("a", "b"), relation("c", "a"), relation("b", "c")])
        opened = await call(client, "open_nodes", names=["a", "zed", "a"])
        found = await call(client, "search_nodes", query="GREEN")

    for graph in (opened, found):
        assert graph["entities"] == [entity("a", "t", "green")]
        assert graph["relations"] == [relation("a", "b"), relation("c", "a")]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("ali", ["Alice", "Malik"]),
        ("paris", ["Paris", "Alice"]),
        ("RIS", ["Paris", "Alice"]),
        ("person tennis", ["Alice"]),
        ("strasse", ["Malik"]),
        ("c++", ["Malik"]),
        ("cafe", ["Paris"]),
        ('"quoted" OR (', []),
        ("nothing of this but tennis", ["Alice"]),
        ("東京", ["Malik"]),
        ("xyz", []),
    ],
)
async def test_search_ranks_words_and_finds_substrings(open_memory, call, query: str, names: list[str]) -> None:
    async with open_memory() as client:
        await call(
            client,
            "create_entities",
            entities=[
                entity("Malik", "person", "lives in the Hauptstraße", "writes C++", "was in 東京都"),
                entity("Alice", "person", "plays tennis", "born in Paris"),
                entity("Paris", "city", "many a café"),
            ],
        )
        found = await call(client, "search_nodes", query=query)

    assert [each["name"] for each in found["entities"]] == names
    assert found["total"] == len(names)


async def test_empty_query_finds_everything(open_memory, call) -> None:
    async with open_memory() as client:
        await call(client, "create_entities", entities=[entity("a"), entity("b")])
        assert (await call(client, "search_nodes", query=""))["total"] == 2


async def test_text_over_a_limit_is_refused_with_its_path(open_memory, call, refusal) -> None:
    async with open_memory(max_items=2, max_name=5, max_observation=6, max_observations=2) as client:
        assert await refusal(client, "create_entities", entities=[entity("x")] * 3) == (
            "expected at most 2 items in one call at `entities`, got 3"
        )
        assert "at `entities[1].name`, got 6" in await refusal(
            client, "create_entities", entities=[entity("x"), entity("longer")]
        )
        assert "at `entities[0].observations[0]`, got 7" in await refusal(
            client, "create_entities", entities=[entity("x", "t", "seven..")]
        )
        assert "NUL" in await refusal(client, "create_entities", entities=[entity("a\0b")])
        await call(client, "create_entities", entities=[entity("x", "t", "1", "2")])
        assert "at most 2 observations of one entity, got 3 of x" in await refusal(
            client, "add_observations", observations=[{"entity_name": "x", "contents": ["3"]}]
        )
        graph = await call(client, "read_graph")

    assert graph["entities"] == [entity("x", "t", "1", "2")]


async def test_namespaces_are_separate_and_restricted_to_the_allowed_ones(open_memory, call, refusal) -> None:
    async with open_memory(namespace="work", namespaces=("home",)) as client:
        await call(client, "create_entities", entities=[entity("a", "t", "here")])
        await call(client, "create_entities", entities=[entity("a", "t", "there")], namespace="home")
        work = await call(client, "search_nodes", query="here")
        home = await call(client, "read_graph", namespace="home")
        message = await refusal(client, "read_graph", namespace="secret")
        stats = await call(client, "graph_stats")
    async with open_memory(namespace="secret") as client:
        hidden = await call(client, "graph_stats")

    assert work["entities"] == [entity("a", "t", "here")]
    assert home["entities"] == [entity("a", "t", "there")]
    assert message == "expected one of work, home at `namespace`, got 'secret'; the operator sets namespaces"
    assert stats["namespaces"] == ["home", "work"]
    assert (stats["entities"], stats["observations"]) == (1, 1)
    assert hidden["namespaces"] == []


async def test_any_namespace_is_accepted_if_configured(open_memory, call, refusal) -> None:
    async with open_memory(namespaces=("*",)) as client:
        await call(client, "create_entities", entities=[entity("a")], namespace="project-1")
        assert (await call(client, "read_graph", namespace="project-1"))["total"] == 1
        assert (await call(client, "read_graph"))["total"] == 0
        assert "expected 1 to 100 letters" in await refusal(client, "read_graph", namespace="../x")
        assert "expected 1 to 100 letters" in await refusal(client, "read_graph", namespace="*")


async def test_answer_of_a_write_is_truncated_at_the_limit(open_memory, call) -> None:
    many = [{"name": f"n{n}", "entity_type": "t", "observations": ["x" * 100]} for n in range(100)]
    async with open_memory(max_answer_bytes=1000) as client:
        created = await call(client, "create_entities", entities=many)
        assert (created["truncated"], created["total"]) == (True, 100)
        assert 1 < len(created["entities"]) < 10
        assert created["entities"][0] == many[0]
        assert (await call(client, "graph_stats"))["entities"] == 100

        one = await call(client, "create_entities", entities=[entity("big", "t", *[f"{n:03}" * 30 for n in range(50)])])
        assert (one["truncated"], one["total"]) == (True, 1)
        assert 1 < len(one["entities"][0]["observations"]) < 10

        pairs = [{"from": f"n{n}", "to": "big", "relation_type": "is part of"} for n in range(100)]
        related = await call(client, "create_relations", relations=pairs)
        assert (related["truncated"], related["total"]) == (True, 100)
        assert related["relations"] == pairs[: len(related["relations"])]

        more = [{"entity_name": f"n{n}", "contents": ["y" * 100]} for n in range(100)]
        added = await call(client, "add_observations", observations=more)
        assert (added["truncated"], added["total"]) == (True, 100)
        assert 1 < len(added["results"]) < 10
        assert (await call(client, "graph_stats"))["observations"] == 250

        few = await call(client, "create_entities", entities=[entity("few")])
        assert few == {"entities": [entity("few")]}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("persn", ["Ann"]),
        ("persn tae", ["Ann"]),
        ("persn chesss", ["Ann"]),
        ("brelin", ["Bob"]),
        ("projet", ["Bob"]),
        ("Mueller", ["Bob"]),
        ("Mullar", ["Bob"]),
        ("architekture", ["Bob"]),
        ("teq", []),
        ("zzzzz chess", ["Ann"]),
    ],
)
async def test_search_tolerates_typing_mistakes_if_nothing_matches(
    open_memory, call, query: str, names: list[str]
) -> None:
    async with open_memory() as client:
        entities = [
            entity("Ann", "person", "likes tea", "plays chess"),
            entity("Bob", "robot", "the project in Berlin", "Müller", "architecture"),
        ]
        await call(client, "create_entities", entities=entities)
        found = await call(client, "search_nodes", query=query, fields=["name"])

    assert [each["name"] for each in found["entities"]] == names


async def test_search_does_not_correct_a_word_that_matches(open_memory, call) -> None:
    async with open_memory() as client:
        await call(client, "create_entities", entities=[entity("test"), entity("text")])
        found = await call(client, "search_nodes", query="test", fields=["name"])

    assert [each["name"] for each in found["entities"]] == ["test"]


async def test_last_changed_come_first_among_equal_matches(open_memory, call) -> None:
    async with open_memory() as client:
        for name in ("a", "b", "c"):
            await call(client, "create_entities", entities=[entity(name, "t", "same words here")])
        await call(client, "add_observations", observations=[{"entity_name": "a", "contents": ["one more word"]}])
        for query in ("same words", "ame wor", ""):
            found = await call(client, "search_nodes", query=query, fields=["name"])
            assert [each["name"] for each in found["entities"]] == ["a", "c", "b"], query


def test_typing_mistakes_of_hostile_words_take_little_time() -> None:
    began = time.monotonic()
    known = [f"word{number}" for number in range(100_000)]
    assert close_words("wodr77", known)[0] == "word77"
    assert close_words("x" * 2000, ["x" * 2000] * 100_000) == []
    assert time.monotonic() - began < 30
