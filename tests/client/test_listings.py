"""Paginated lists: complete, page by page, and from servers with faulty cursors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio

from mcptrio import Client, MCPError, Server, connect
from mcptrio.client import Listing, listings
from mcptrio.errors import RemoteProtocolError
from mcptrio.serving import ServerSettings
from tests.client.scripted import Script, play
from tests.error_codes import INVALID_PARAMS
from tests.interaction.applies import HANDSHAKE, MODERN, REVISIONS

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], MODERN[-1]

KINDS: dict[str, tuple[Callable[[Client], Listing[Any]], str, Callable[[str], dict[str, Any]]]] = {
    "tools/list": (Client.tools, "tools", lambda name: {"name": name, "inputSchema": {"type": "object"}}),
    "prompts/list": (Client.prompts, "prompts", lambda name: {"name": name}),
    "resources/list": (Client.resources, "resources", lambda name: {"name": name, "uri": f"note:///{name}"}),
    "resources/templates/list": (
        Client.resource_templates,
        "resourceTemplates",
        lambda name: {"name": name, "uriTemplate": "note:///{name}"},
    ),
}


async def give(script: Script, method: str, *pages: Sequence[str], cursors: Sequence[str]) -> list[Any]:
    """Answer with these pages; return the cursors of the requests."""
    _, key, item = KINDS[method]
    asked: list[Any] = []
    for number, names in enumerate(pages):
        request = await script.next_request(method)
        asked.append((request.params or {}).get("cursor", "none"))
        result: dict[str, Any] = {key: [item(name) for name in names]}
        if number < len(cursors):
            result["nextCursor"] = cursors[number]
        await script.answer(request, result)
    return asked


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("method", KINDS)
async def test_all_pages_are_joined_to_one_list(revision: str, method: str) -> None:
    listing, _, _ = KINDS[method]
    async with play(revision) as (client, script), trio.open_nursery() as nursery:
        asked: list[Any] = []

        async def serve() -> None:
            asked.extend(await give(script, method, ["a", "b"], [], ["c"], cursors=["1", "2"]))

        nursery.start_soon(serve)
        assert [item.name for item in await listing(client).all()] == ["a", "b", "c"]
    assert asked == ["none", "1", "2"]


@pytest.mark.parametrize("cursor", ["", " ", "0", "é\u2028", "../../?x=%00", "x" * 10_000])
async def test_cursor_is_returned_unchanged_even_if_empty(cursor: str) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        asked: list[Any] = []

        async def serve() -> None:
            asked.extend(await give(script, "tools/list", ["a"], ["b"], cursors=[cursor]))

        nursery.start_soon(serve)
        assert [tool.name for tool in await client.tools().all()] == ["a", "b"]
    assert asked == ["none", cursor]


@pytest.mark.parametrize(
    ("cursors", "served"), [(["1", "1"], 2), (["1", "2", "1"], 3), (["", ""], 2)], ids=["same", "circle", "empty"]
)
async def test_repeated_cursor_is_an_error(cursors: list[str], served: int) -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await give(script, "tools/list", *[["a"]] * served, cursors=cursors)

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="tools/list: the server gave the same cursor twice"):
            await client.tools().all()


async def test_listing_stops_after_the_maximum_number_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "MAX_PAGES", 20)
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await give(script, "tools/list", *[["a"]] * 20, cursors=[str(number) for number in range(20)])

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="expected at most 20 pages"):
            await client.tools().all()


@pytest.mark.parametrize(("bound", "problem"), [("MAX_ITEMS", "20 entries"), ("MAX_BYTES", "20 bytes")])
async def test_list_over_a_limit_is_an_error(bound: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, bound, 20)
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            pages = [["a"] * 15, ["b"] * 15]
            await give(script, "tools/list", *pages, cursors=["1", "2"])

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match=f"expected at most {problem} on all pages"):
            await client.tools().all()


async def test_iteration_of_a_list_may_stop_early() -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await give(script, "tools/list", ["a", "b"], cursors=["1"])

        nursery.start_soon(serve)
        async for tool in client.tools():
            assert tool.name == "a"
            break
        await script.expect_nothing()


async def test_single_pages_are_requested() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            for _ in range(3):
                await give(script, "resources/list", ["a"], ["b"], cursors=["1"])

        nursery.start_soon(serve)
        listing = client.resources()
        first = await listing.page()
        second = await listing.page(first.next_cursor)
        assert [page.resources[0].name for page in (first, second)] == ["a", "b"]
        assert second.next_cursor is None

        pages = [page async for page in listing.pages()]
        assert [[item.name for item in page.resources] for page in pages] == [["a"], ["b"]]
        assert len(await listing.all()) == 2


async def test_listing_raises_an_error_at_the_failing_page() -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await give(script, "prompts/list", ["a"], cursors=["1"])
            await script.refuse(await script.next_request("prompts/list"), INVALID_PARAMS, "stale cursor")

        nursery.start_soon(serve)
        listing = aiter(client.prompts())
        assert (await anext(listing)).name == "a"
        with pytest.raises(MCPError, match="stale cursor"):
            await anext(listing)


@pytest.mark.parametrize("result", [{}, {"tools": None}, {"tools": [{"name": "a"}]}, {"tools": [], "nextCursor": 5}])
@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_invalid_page_error_names_the_position(revision: str, result: dict[str, Any]) -> None:
    async with play(revision) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.next_request("tools/list"), result)

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match=r"result of tools/list: expected .*"):
            await client.tools().all()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_pages_of_an_mcptrio_server_are_listed(revision: str) -> None:
    server = Server(settings=ServerSettings(page_size=3))
    for number in range(10):
        server.add_tool(_tool, name=f"tool_{number}")
        server.add_prompt(_tool, name=f"prompt_{number}")
        server.add_resource(_tool, uri=f"note:///{number}", name=f"resource_{number}")
    async with connect(server, revision=revision) as client:
        for kind, listing in (("tool", client.tools()), ("prompt", client.prompts()), ("resource", client.resources())):
            assert sorted([item.name async for item in listing]) == [f"{kind}_{number}" for number in range(10)]
            assert len([page async for page in listing.pages()]) == 4


def _tool() -> str:
    """Do nothing."""
    return ""
