"""Results are cached while they are fresh, and no longer."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcptrio import Blob, Client, MCPError, Server, connect
from mcptrio.client import Handlers
from mcptrio.protocol.messages import Notification, Request, Response
from mcptrio.serving import ServerSettings
from tests.client.scripted import FORM, TOOL, Script, play
from tests.interaction.applies import HANDSHAKE, MODERN

__all__: list[str] = []

NEW = MODERN[-1]

LISTS = {
    "tools/list": (lambda client: client.tools().page(), {"tools": [TOOL]}),
    "prompts/list": (lambda client: client.prompts().page(), {"prompts": [{"name": "letter"}]}),
    "resources/list": (lambda client: client.resources().page(), {"resources": [{"uri": "note:///1", "name": "n"}]}),
    "resources/templates/list": (
        lambda client: client.resource_templates().page(),
        {"resourceTemplates": [{"uriTemplate": "note:///{n}", "name": "n"}]},
    ),
    "resources/read": (lambda client: client.read_resource("note:///1"), {"contents": []}),
}
"""Cacheable requests with a result."""


class Counting:
    """A script that answers everything with the same time to live, and counts.

    Attributes:
        asked: the methods, in order, and what tells their requests apart.
    """

    def __init__(self, script: Script, **hints: Any) -> None:
        self.script = script
        self.hints = hints
        self.asked: list[tuple[str, str | None]] = []

    async def run(self) -> None:
        while True:
            request = await self.script.asked()
            await self.answer(request)

    async def answer(self, request: Request) -> None:
        params = request.params or {}
        self.asked.append((request.method, params.get("cursor", params.get("uri"))))
        _, result = LISTS[request.method]
        await self.script.answer(request, {**result, **self.hints})

    def count(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)


@pytest.mark.parametrize("method", LISTS)
async def test_answer_is_kept_while_it_is_fresh(method: str, autojump_clock: object) -> None:
    ask, _ = LISTS[method]
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)

        first = await ask(client)
        await trio.sleep(59.9)
        assert await ask(client) == first
        assert counting.count(method) == 1
        await trio.sleep(0.1)
        assert await ask(client) == first
        assert counting.count(method) == 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("hints", [{}, {"ttlMs": 0}, {"ttlMs": -5}], ids=["", "zero", "negative"])
async def test_answer_that_is_stale_at_once_is_not_kept(method: str, hints: dict[str, Any]) -> None:
    """A negative time means none."""
    ask, _ = LISTS[method]
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, **hints)
        nursery.start_soon(counting.run)
        await ask(client)
        await ask(client)
        assert counting.count(method) == 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_older_revisions_say_nothing_of_keeping(revision: str) -> None:
    """Also where a server says the words of a newer one."""
    async with play(revision) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)
        await client.tools().all()
        await client.tools().all()
        assert counting.count("tools/list") == 2
        nursery.cancel_scope.cancel()


async def test_nothing_is_kept_for_longer_than_an_hour(autojump_clock: object) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=10**15)
        nursery.start_soon(counting.run)
        await client.tools().all()
        await trio.sleep(3599)
        await client.tools().all()
        assert counting.count("tools/list") == 1
        await trio.sleep(1)
        await client.tools().all()
        assert counting.count("tools/list") == 2
        nursery.cancel_scope.cancel()


async def test_pages_and_resources_are_kept_each_for_itself(autojump_clock: object) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)
        for _ in range(2):
            for cursor in (None, "", "2"):
                await client.tools().page(cursor)
            for uri in ("note:///1", "note:///2"):
                await client.read_resource(uri)
        assert counting.asked == [
            ("tools/list", None),
            ("tools/list", ""),
            ("tools/list", "2"),
            ("resources/read", "note:///1"),
            ("resources/read", "note:///2"),
        ]
        nursery.cancel_scope.cancel()


async def test_one_client_knows_nothing_of_another() -> None:
    """They may act for different people."""
    server = Server(settings=ServerSettings(list_ttl_ms=60_000))
    server.add_tool(early)
    async with connect(server) as first, connect(server) as second:
        assert [tool.name for tool in await first.tools().all()] == ["early"]
        server.add_tool(late)
        assert [tool.name for tool in await second.tools().all()] == ["early", "late"]


def early() -> str:
    """Be there from the beginning."""
    return ""


def late() -> str:
    """Be added."""
    return ""


async def test_the_one_used_longest_ago_gives_way() -> None:
    async with play(NEW, cache_entries=2) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)
        for uri in ("a:///", "b:///", "a:///", "c:///", "a:///", "b:///"):
            await client.read_resource(uri)
        assert [uri for _, uri in counting.asked] == ["a:///", "b:///", "c:///", "b:///"]
        nursery.cancel_scope.cancel()


async def test_nothing_is_kept_where_nothing_is_wanted() -> None:
    async with play(NEW, cache_entries=0) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)
        await client.tools().all()
        await client.tools().all()
        assert counting.count("tools/list") == 2
        nursery.cancel_scope.cancel()


# --- changes


async def change(script: Script, method: str, **params: Any) -> None:
    await script.tell(method, params)
    await wait_all_tasks_blocked()


@pytest.mark.parametrize(
    ("notification", "stale"),
    [
        ("notifications/tools/list_changed", {"tools/list"}),
        ("notifications/prompts/list_changed", {"prompts/list"}),
        ("notifications/resources/list_changed", {"resources/list", "resources/templates/list"}),
        ("notifications/message", set()),
    ],
)
async def test_change_of_a_list_makes_that_list_stale(notification: str, stale: set[str]) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)
        for ask, _ in LISTS.values():
            await ask(client)
        params = {"level": "info", "data": 1} if notification == "notifications/message" else {}
        await change(script, notification, **params)
        for ask, _ in LISTS.values():
            await ask(client)
        assert {method for method in LISTS if counting.count(method) == 2} == stale
        nursery.cancel_scope.cancel()


async def test_resource_update_invalidates_the_resource_and_its_parents() -> None:
    kept = ["f:///a", "f:///a/", "f:///a/b", "f:///a/bc", "f:///x"]
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)
        for uri in kept:
            await client.read_resource(uri)
        await change(script, "notifications/resources/updated", uri="f:///a/b")
        for uri in kept:
            await client.read_resource(uri)
        assert [uri for _, uri in counting.asked[len(kept) :]] == ["f:///a", "f:///a/", "f:///a/b"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("method", "notification"),
    [
        ("tools/list", Notification("notifications/tools/list_changed")),
        ("resources/read", Notification("notifications/resources/updated", {"uri": "note:///1"})),
    ],
)
async def test_answer_overtaken_by_a_change_is_not_kept(method: str, notification: Notification) -> None:
    """It may have been made before the change, however late it comes."""
    ask, result = LISTS[method]
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            request = await script.asked(method)
            await script.send(notification)
            await script.answer(request, {**result, "ttlMs": 60_000})
            await script.answer(await script.asked(method), {**result, "ttlMs": 60_000})

        nursery.start_soon(serve)
        await ask(client)
        await ask(client)
        await ask(client)
        await script.silent()


async def test_change_of_a_server_of_ours_is_noticed_while_the_list_is_fresh() -> None:
    server = Server(settings=ServerSettings(list_ttl_ms=3_600_000))
    server.add_tool(early)
    async with connect(server) as client, client.subscribe(tools=True) as changes:
        assert [tool.name for tool in await client.tools().all()] == ["early"]
        server.add_tool(late)
        await changes.__anext__()
        assert [tool.name for tool in await client.tools().all()] == ["early", "late"]


# --- what is never kept


async def test_answer_to_a_retry_is_not_kept() -> None:
    """It depends on what the user said. Source: server/utilities/caching, "Cache Key"."""

    async def elicit(form: Any) -> dict[str, Any]:
        return {"name": "Ada"}

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            for _ in range(2):
                question = {"name": {"method": "elicitation/create", "params": FORM}}
                request = await script.asked("resources/read")
                await script.answer(request, {"resultType": "input_required", "inputRequests": question})
                await script.answer(await script.asked("resources/read"), {"contents": [], "ttlMs": 60_000})

        nursery.start_soon(serve)
        await client.read_resource("note:///1")
        await client.read_resource("note:///1")


async def test_error_is_not_kept() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.refuse(await script.asked("resources/read"), -32603)
            await script.answer(await script.asked("resources/read"), {"contents": []})

        nursery.start_soon(serve)
        with pytest.raises(MCPError):
            await client.read_resource("note:///1")
        await client.read_resource("note:///1")


async def test_calls_prompts_and_completions_are_not_kept() -> None:
    """Whatever a server says of them."""
    answers: dict[str, dict[str, Any]] = {
        "tools/call": {"content": []},
        "prompts/get": {"messages": []},
        "completion/complete": {"completion": {"values": []}},
    }

    async def ask(client: Client) -> None:
        await client.call_tool("work")
        await client.get_prompt("letter")
        await client.complete("prompt", "letter", "to", "A")

    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            for _ in range(6):
                request = await script.asked()
                hints = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
                await script.send(Response(request.id, {**hints, **answers[request.method]}))

        nursery.start_soon(serve)
        await ask(client)
        await ask(client)


async def test_resource_of_an_mcptrio_server_is_read_again_each_time() -> None:
    server = Server()
    reads = 0

    def read() -> Blob:
        nonlocal reads
        reads += 1
        return Blob(bytes([reads]), "application/octet-stream")

    server.add_resource(read, uri="note:///1")
    async with connect(server) as client:
        first, second = await client.read_resource("note:///1"), await client.read_resource("note:///1")
        assert first != second
