"""Results are cached for their time to live."""

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
from tests.error_codes import INTERNAL_ERROR
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
    """A script that answers every request with the same time to live, and counts the requests.

    Attributes:
        asked: The method of each request, with its cursor or URI, in order.
    """

    def __init__(self, script: Script, **hints: Any) -> None:
        self.script = script
        self.hints = hints
        self.asked: list[tuple[str, str | None]] = []

    async def run(self) -> None:
        while True:
            request = await self.script.next_request()
            await self.answer(request)

    async def answer(self, request: Request) -> None:
        params = request.params or {}
        self.asked.append((request.method, params.get("cursor", params.get("uri"))))
        _, result = LISTS[request.method]
        await self.script.answer(request, {**result, **self.hints})

    def count(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)


@pytest.mark.parametrize("method", LISTS)
async def test_result_is_cached_until_its_ttl_ends(method: str, autojump_clock: object) -> None:
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
async def test_result_without_a_positive_ttl_is_not_cached(method: str, hints: dict[str, Any]) -> None:
    ask, _ = LISTS[method]
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, **hints)
        nursery.start_soon(counting.run)
        await ask(client)
        await ask(client)
        assert counting.count(method) == 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_ttl_is_ignored_in_older_revisions(revision: str) -> None:
    async with play(revision) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)
        await client.tools().all()
        await client.tools().all()
        assert counting.count("tools/list") == 2
        nursery.cancel_scope.cancel()


async def test_ttl_is_limited_to_an_hour(autojump_clock: object) -> None:
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


async def test_pages_and_resources_are_cached_separately(autojump_clock: object) -> None:
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


async def test_clients_of_one_server_have_separate_caches() -> None:
    """The clients may have different principals."""
    server = Server(settings=ServerSettings(list_ttl_ms=60_000))
    server.add_tool(early)
    async with connect(server) as first, connect(server) as second:
        assert [tool.name for tool in await first.tools().all()] == ["early"]
        server.add_tool(late)
        assert [tool.name for tool in await second.tools().all()] == ["early", "late"]


def early() -> str:
    """The first tool."""
    return ""


def late() -> str:
    """The tool that is added."""
    return ""


async def test_least_recently_used_result_is_evicted() -> None:
    async with play(NEW, cache_entries=2) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)
        for uri in ("a:///", "b:///", "a:///", "c:///", "a:///", "b:///"):
            await client.read_resource(uri)
        assert [uri for _, uri in counting.asked] == ["a:///", "b:///", "c:///", "b:///"]
        nursery.cancel_scope.cancel()


async def test_cache_without_entries_stores_nothing() -> None:
    async with play(NEW, cache_entries=0) as (client, script), trio.open_nursery() as nursery:
        counting = Counting(script, ttlMs=60_000)
        nursery.start_soon(counting.run)
        await client.tools().all()
        await client.tools().all()
        assert counting.count("tools/list") == 2
        nursery.cancel_scope.cancel()


# --- changes


async def change(script: Script, method: str, **params: Any) -> None:
    await script.notify(method, params)
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
async def test_list_changed_notification_invalidates_that_list(notification: str, stale: set[str]) -> None:
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
async def test_result_that_arrives_after_a_change_is_not_cached(method: str, notification: Notification) -> None:
    """The server may have made it before the change."""
    ask, result = LISTS[method]
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            request = await script.next_request(method)
            await script.send(notification)
            await script.answer(request, {**result, "ttlMs": 60_000})
            await script.answer(await script.next_request(method), {**result, "ttlMs": 60_000})

        nursery.start_soon(serve)
        await ask(client)
        await ask(client)
        await ask(client)
        await script.expect_nothing()


async def test_change_of_an_mcptrio_server_invalidates_its_list() -> None:
    server = Server(settings=ServerSettings(list_ttl_ms=3_600_000))
    server.add_tool(early)
    async with connect(server) as client, client.subscribe(tools=True) as changes:
        assert [tool.name for tool in await client.tools().all()] == ["early"]
        server.add_tool(late)
        await changes.__anext__()
        assert [tool.name for tool in await client.tools().all()] == ["early", "late"]


# --- results that are never cached


async def test_result_of_a_retry_with_input_is_not_cached() -> None:
    """It depends on the user's answers. Source: server/utilities/caching, "Cache Key"."""

    async def elicit(form: Any) -> dict[str, Any]:
        return {"name": "Ada"}

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            for _ in range(2):
                question = {"name": {"method": "elicitation/create", "params": FORM}}
                request = await script.next_request("resources/read")
                await script.answer(request, {"resultType": "input_required", "inputRequests": question})
                await script.answer(await script.next_request("resources/read"), {"contents": [], "ttlMs": 60_000})

        nursery.start_soon(serve)
        await client.read_resource("note:///1")
        await client.read_resource("note:///1")


async def test_error_is_not_cached() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.refuse(await script.next_request("resources/read"), INTERNAL_ERROR)
            await script.answer(await script.next_request("resources/read"), {"contents": []})

        nursery.start_soon(serve)
        with pytest.raises(MCPError):
            await client.read_resource("note:///1")
        await client.read_resource("note:///1")


async def test_calls_prompts_and_completions_are_not_cached() -> None:
    """This holds even if the server sends a time to live."""
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
                request = await script.next_request()
                hints = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
                await script.send(Response(request.id, {**hints, **answers[request.method]}))

        nursery.start_soon(serve)
        await ask(client)
        await ask(client)


async def test_resource_of_an_mcptrio_server_is_not_cached_by_default() -> None:
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
