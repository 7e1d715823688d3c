"""The tools and the resource, through a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import jsonschema_rs
import pytest
import trio
from mcptrio_thinking import Config, Thinking

from mcptrio import Client, MCPError, Server, connect
from mcptrio.abc import Principal
from mcptrio.serving import memory_channel_pair
from mcptrio.testing import Case, ServerSpec, open_served
from mcptrio.types import TextContent

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"

FIRST = {"thought": "Look.", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 3}
SECOND = {"thought": "See.", "nextThoughtNeeded": True, "thoughtNumber": 2, "totalThoughts": 3}


@asynccontextmanager
async def connected(revision: str = HANDSHAKE, **settings: Any) -> AsyncIterator[Client]:
    with trio.fail_after(60):
        async with connect(Server(plugins=[Thinking(Config(**settings))]), revision=revision) as client:
            yield client


async def think(client: Client, thought: dict[str, Any], **more: Any) -> Any:
    return await call(client, "sequentialthinking", **{**thought, **more})


async def call(client: Client, tool: str, /, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refusal(client: Client, tool: str, /, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


async def test_tools_have_descriptions_and_hints() -> None:
    async with connected() as client:
        tools = {tool.name: tool async for tool in client.tools()}

    hints = {
        name: (
            tool.annotations.read_only_hint,
            tool.annotations.destructive_hint,
            tool.annotations.idempotent_hint,
            tool.annotations.open_world_hint,
        )
        for name, tool in tools.items()
        if tool.annotations is not None
    }
    assert hints == {
        "sequentialthinking": (False, False, False, False),
        "get_sequence": (True, False, True, False),
        "clear_sequence": (False, True, True, False),
    }
    schema = tools["sequentialthinking"].input_schema
    assert schema["required"] == ["thought", "nextThoughtNeeded", "thoughtNumber", "totalThoughts"]
    assert list(schema["properties"]) == [
        *schema["required"],
        "isRevision",
        "revisesThought",
        "branchFromThought",
        "branchId",
        "needsMoreThoughts",
        "sequence_id",
    ]
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(FIRST)
    assert not validator.is_valid({**FIRST, "thoughtNumber": 0})
    assert "'type': [" not in str(schema)


@pytest.mark.parametrize("revision", [HANDSHAKE, STATELESS])
async def test_sequence_continues_with_its_id(revision: str) -> None:
    async with connected(revision) as client:
        first = await think(client, FIRST)
        id = first.pop("sequence_id")
        assert first == {
            "thoughtNumber": 1,
            "totalThoughts": 3,
            "nextThoughtNeeded": True,
            "branches": [],
            "thoughtHistoryLength": 1,
            "notes": [],
        }
        second = await think(client, SECOND, sequence_id=id)
        assert (second["thoughtHistoryLength"], second["sequence_id"]) == (2, id)
        last = await think(client, SECOND, sequence_id=id, thoughtNumber=5, nextThoughtNeeded=False)
        assert (last["totalThoughts"], last["nextThoughtNeeded"]) == (5, False)


async def test_strings_are_accepted_for_numbers_and_booleans() -> None:
    async with connected() as client:
        result = await think(
            client,
            FIRST,
            thoughtNumber="2",
            totalThoughts="5",
            nextThoughtNeeded="false",
            isRevision="true",
            revisesThought="1",
            branchFromThought=None,
            needsMoreThoughts="true",
            sequence_id="s",
        )
        [kept] = (await call(client, "get_sequence", sequence_id="s"))["items"]
        for wrong in ({"thoughtNumber": "two"}, {"thoughtNumber": 0}, {"totalThoughts": "0"}, {"isRevision": "maybe"}):
            assert "invalid arguments" in await refusal(client, "sequentialthinking", **{**FIRST, **wrong})

    assert (result["thoughtNumber"], result["totalThoughts"], result["nextThoughtNeeded"]) == (2, 5, False)
    assert kept == {
        "thought": "Look.",
        "thoughtNumber": 2,
        "totalThoughts": 5,
        "nextThoughtNeeded": False,
        "isRevision": True,
        "revisesThought": 1,
        "branchFromThought": None,
        "branchId": None,
        "needsMoreThoughts": True,
    }


@pytest.mark.parametrize("revision", [HANDSHAKE, STATELESS])
async def test_session_continues_its_last_sequence_without_an_id(revision: str) -> None:
    async with connected(revision) as client:
        one = await think(client, FIRST)
        two = await think(client, SECOND)
        assert (two["sequence_id"], two["thoughtHistoryLength"]) == (one["sequence_id"], 2)
        another = await think(client, FIRST)
        assert another["sequence_id"] != one["sequence_id"]
        assert another["thoughtHistoryLength"] == 1
        assert (await think(client, SECOND, sequence_id=one["sequence_id"]))["thoughtHistoryLength"] == 3
        assert (await think(client, SECOND))["sequence_id"] == one["sequence_id"]
        assert (await call(client, "get_sequence"))["total"] == 4


async def test_callers_without_identity_need_the_id() -> None:
    spec = ServerSpec(plugins=[Thinking(Config())])
    async with open_served(spec, Case(transport="http", revision=STATELESS)) as served, served.connect() as client:
        one = await think(client, FIRST)
        two = await think(client, FIRST)
        assert one["sequence_id"] != two["sequence_id"]
        assert "expected sequence_id" in await refusal(client, "sequentialthinking", **SECOND)
        assert "expected sequence_id" in await refusal(client, "get_sequence")
        assert (await think(client, SECOND, sequence_id="mine"))["thoughtHistoryLength"] == 1
        assert (await client.complete("resource", "thinking://{sequence_id}", "sequence_id", "")).values == ()


async def test_principal_continues_its_sequences_in_every_session() -> None:
    server = Server(plugins=[Thinking(Config())])
    ann, also_ann = Principal(subject="ann", client_id="a"), Principal(subject="ann", client_id="b")
    with trio.fail_after(60):
        async with server.open() as running, trio.open_nursery() as nursery:
            clients: list[Client] = []
            async with AsyncExitStack() as stack:
                for principal, revision in (
                    (ann, HANDSHAKE),
                    (also_ann, STATELESS),
                    (Principal(subject="bob"), HANDSHAKE),
                ):
                    ours, theirs = memory_channel_pair()
                    nursery.start_soon(partial(running.serve, theirs, principal=principal))
                    clients.append(await stack.enter_async_context(connect(ours, revision=revision)))
                one, two, bob = clients
                await think(one, FIRST, sequence_id="hers")
                assert (await call(two, "get_sequence", sequence_id="hers"))["total"] == 1
                assert "expected sequence_id" in await refusal(two, "get_sequence"), "another conversation"
                assert "no such sequence" in await refusal(bob, "get_sequence", sequence_id="hers")
            nursery.cancel_scope.cancel()


async def test_number_of_branches_is_limited() -> None:
    async with connected(max_branches=2) as client:
        await think(client, FIRST, sequence_id="s")
        for name in ("a", "b", "a"):
            await think(client, SECOND, sequence_id="s", branchFromThought=1, branchId=name)
        more = {**SECOND, "branchFromThought": 1, "branchId": "c"}
        assert "already has 2 branches" in await refusal(client, "sequentialthinking", **more, sequence_id="s")
        result = await think(client, SECOND, sequence_id="s")
        assert (result["branches"], result["thoughtHistoryLength"]) == (["a", "b"], 5)
        await think(client, more, sequence_id="t")


async def test_branch_name_with_a_line_end_is_refused() -> None:
    async with connected() as client:
        for name in ("mine\n", "mi\nne"):
            assert "sequence_id" in await refusal(client, "clear_sequence", sequence_id=name)


@pytest.mark.parametrize("revision", [HANDSHAKE, STATELESS])
async def test_sessions_do_not_share_a_history(revision: str) -> None:
    spec = ServerSpec(plugins=[Thinking(Config())])
    async with open_served(spec, Case(revision=revision)) as served:
        async with served.connect() as one, served.connect() as other:
            await think(one, FIRST, sequence_id="same")
            result = await think(other, SECOND, sequence_id="same")
            assert result["thoughtHistoryLength"] == 1
            assert (await call(other, "clear_sequence", sequence_id="same"))["thoughts"] == 1
            assert (await call(one, "get_sequence", sequence_id="same"))["total"] == 1
            await think(one, FIRST, sequence_id="only-one")
            assert "no such sequence" in await refusal(other, "get_sequence", sequence_id="only-one")
            with pytest.raises(MCPError, match="not found"):
                await other.read_resource("thinking://only-one")
            completed = await one.complete("resource", "thinking://{sequence_id}", "sequence_id", "o")
            assert completed.values[0] == "only-one"


async def test_branches_and_revisions_are_kept() -> None:
    async with connected() as client:
        await think(client, FIRST, sequence_id="s")
        await think(client, SECOND, sequence_id="s", branchFromThought=1, branchId="a")
        await think(client, SECOND, sequence_id="s", branchFromThought="1", branchId="b")
        result = await think(client, SECOND, sequence_id="s", thoughtNumber=3, branchFromThought=1, branchId="a")
        assert (result["branches"], result["notes"]) == (["a", "b"], [])
        branch = await call(client, "get_sequence", sequence_id="s", branchId="a")
        assert [each["thoughtNumber"] for each in branch["items"]] == [2, 3]
        odd = await think(client, SECOND, sequence_id="s", isRevision=True, branchFromThought=9, branchId="")
        assert odd["notes"] == [
            "branchFromThought: there is no thought 9 in this sequence",
            "isRevision: revisesThought does not say which thought",
            "a branch needs both branchFromThought and branchId",
        ]


async def test_thoughts_are_paginated() -> None:
    async with connected(max_answer_bytes=1000, max_answer_thoughts=50) as client:
        for number in range(1, 8):
            await think(client, {**FIRST, "thoughtNumber": number, "thought": "x" * 100}, sequence_id="s")
        seen: list[int] = []
        cursor = None
        while True:
            page = await call(client, "get_sequence", sequence_id="s", cursor=cursor)
            assert page["total"] == 7
            assert len(page["items"]) <= 2
            seen += [each["thoughtNumber"] for each in page["items"]]
            cursor = page["next_cursor"]
            assert page["truncated"] == (cursor is not None)
            if cursor is None:
                break
        assert seen == list(range(1, 8))
        assert len((await call(client, "get_sequence", sequence_id="s", limit=1))["items"]) == 1
        assert (await call(client, "get_sequence", sequence_id="s", cursor="99"))["items"] == []


@pytest.mark.parametrize("revision", [HANDSHAKE, STATELESS])
async def test_transcript_is_a_subscribable_resource(revision: str) -> None:
    async with connected(revision) as client:
        uri = "thinking://s"
        async with client.subscribe([uri]) as changes:
            await think(client, FIRST, sequence_id="s")
            assert (await anext(changes)).uri == uri
            await think(client, SECOND, sequence_id="s", isRevision=True, revisesThought=1)
            assert (await anext(changes)).uri == uri
            [contents] = (await client.read_resource(uri)).contents
            assert contents.mime_type == "text/markdown"
            assert contents.text == (
                "# Thoughts of s\n\n## Thought 1 of 3\n\nLook.\n\n## Thought 2 of 3, revising 1\n\nSee.\n"
            )
            assert (await call(client, "clear_sequence", sequence_id="s"))["thoughts"] == 2
            assert (await anext(changes)).uri == uri
        assert (await call(client, "clear_sequence", sequence_id="s"))["thoughts"] == 0
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource(uri)


async def test_long_transcript_is_truncated_to_its_end() -> None:
    async with connected(max_answer_bytes=1000) as client:
        for number in range(1, 8):
            await think(client, {**FIRST, "thoughtNumber": number, "thought": "x" * 300}, sequence_id="s")
        [contents] = (await client.read_resource("thinking://s")).contents
    assert "## Thought 7 of 7" in contents.text
    assert "(4 earlier thoughts are left out" in contents.text
    assert len(contents.text) < 1200


async def test_full_sequence_drops_old_thoughts_and_counts_them() -> None:
    async with connected(max_thoughts=3) as client:
        for number in range(1, 6):
            noted = await think(client, {**FIRST, "thoughtNumber": number}, sequence_id="s")
        assert noted["thoughtHistoryLength"] == 5
        first = await client.call_tool("get_sequence", {"sequence_id": "s", "limit": 2})
        [contents] = (await client.read_resource("thinking://s")).contents
        await think(client, {**FIRST, "thoughtNumber": 6}, sequence_id="s")
        cursor = first.structured_content["next_cursor"]
        second = await client.call_tool("get_sequence", {"sequence_id": "s", "cursor": cursor})

    assert first.text.startswith("[2 earlier thoughts were dropped to make room]\nThought 3 of")
    assert "(2 earlier thoughts were dropped to make room.)" in contents.text
    # A thought that is dropped between two pages does not shift the second.
    assert [each["thoughtNumber"] for each in second.structured_content["items"]] == [5, 6]


async def test_arguments_over_a_limit_are_refused() -> None:
    async with connected(max_thought_bytes=100) as client:
        assert "at most 100 bytes, got 102" in await refusal(
            client, "sequentialthinking", **{**FIRST, "thought": "é" * 51}
        )
        await think(client, FIRST, sequence_id="s")
        assert "at `sequence_id`, got 'a/b'" in await refusal(client, "sequentialthinking", **FIRST, sequence_id="a/b")
        assert "at `branchId`, got 201" in await refusal(client, "sequentialthinking", **FIRST, branchId="b" * 201)
        assert "at `cursor`" in await refusal(client, "get_sequence", sequence_id="s", cursor="end")


async def test_unused_sequence_expires(autojump_clock: trio.testing.MockClock) -> None:
    thinking = Thinking(Config(ttl=1000))
    async with connect(Server(plugins=[thinking]), revision=HANDSHAKE) as client:
        await think(client, FIRST, sequence_id="s")
        await trio.sleep(900)
        await call(client, "get_sequence", sequence_id="s")
        await trio.sleep(900)
        assert len(thinking.sequences) == 1
        await trio.sleep(200)
        assert len(thinking.sequences) == 0  # no call was made
        assert "no such sequence" in await refusal(client, "get_sequence", sequence_id="s")


async def test_number_of_too_many_digits_is_refused() -> None:
    async with connected() as client:
        for number in ("0" * 5000 + "1", "0"):
            message = await refusal(client, "sequentialthinking", **{**FIRST, "totalThoughts": number})
            assert "invalid arguments" in message


async def test_texts_are_lines_for_a_model() -> None:
    async with connected() as client:

        async def text(tool: str, **arguments: Any) -> str:
            [block] = (await client.call_tool(tool, arguments)).content
            assert isinstance(block, TextContent)
            return block.text

        assert await text("sequentialthinking", **FIRST, sequence_id="s") == "thought 1 of 3; sequence_id=s"
        branch = {"branchFromThought": 1, "branchId": "b", "revisesThought": 9, "sequence_id": "s"}
        assert await text("sequentialthinking", **SECOND, **branch) == (
            "thought 2 of 3; sequence_id=s; branches: b\nnote: revisesThought: there is no thought 9 in this sequence"
        )
        assert await text("get_sequence", limit=1) == "Thought 1 of 3: Look.\n[2 thoughts; more follow: pass cursor=1]"
        assert await text("get_sequence", branchId="b") == "Thought 2 of 3, revising 9, branch b from 1: See."
        assert await text("clear_sequence", sequence_id="s") == "2 thoughts deleted"


async def test_longest_page_fits_into_a_result() -> None:
    async with connected() as client:
        for number in range(1, 21):
            await think(client, {**FIRST, "thoughtNumber": number, "thought": "x" * 6000}, sequence_id="s")
        result = await client.call_tool("get_sequence", {"sequence_id": "s"})

    assert len(result.content[0].text) < 40_000  # type: ignore[union-attr]
    assert result.structured_content["next_cursor"] == "5"


async def test_definitions_take_few_tokens(check_tokens: Any) -> None:
    async with connected() as client:
        await check_tokens(client, 497)
