"""Lists in pages: complete, stable, and with valid cursors only."""

from __future__ import annotations

import base64
from typing import Any

from mcptrio import prompt, resource, tool
from tests.error_codes import INVALID_PARAMS
from tests.interaction.applies import MODERN, only
from tests.interaction.client import Peer
from tests.interaction.serving import Serve


@tool
async def first() -> str:
    """First."""
    return ""


@resource("first://")
async def first_resource() -> str:
    """First."""
    return ""


@prompt
async def first_prompt() -> str:
    """First."""
    return ""


async def _nothing() -> str:
    """Nothing."""
    return ""


async def _variable(x: str) -> str:
    """Nothing."""
    return x


async def _pages(peer: Peer, method: str, member: str, key: str) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor: dict[str, Any] = {}
    while True:
        result = await peer.request(method, cursor)
        pages.append([entry[key] for entry in result[member]])
        if "nextCursor" not in result:
            return pages
        cursor = {"cursor": result["nextCursor"]}


async def test_every_list_is_paginated(serve: Serve) -> None:
    peer = await serve(first, first_resource, first_prompt, page_size=2)
    for number in range(4):
        serve.server.add_tool(_nothing, name=f"t{number}")
        serve.server.add_prompt(_nothing, name=f"p{number}")
        serve.server.add_resource(_nothing, f"r://{number}")
    for number in range(5):
        serve.server.add_resource(_variable, f"x{number}://{{x}}")

    assert await _pages(peer, "tools/list", "tools", "name") == [["first", "t0"], ["t1", "t2"], ["t3"]]
    assert await _pages(peer, "prompts/list", "prompts", "name") == [["first_prompt", "p0"], ["p1", "p2"], ["p3"]]
    uris = await _pages(peer, "resources/list", "resources", "uri")
    assert uris == [["first://", "r://0"], ["r://1", "r://2"], ["r://3"]]
    templates = await _pages(peer, "resources/templates/list", "resourceTemplates", "uriTemplate")
    assert templates == [["x0://{x}", "x1://{x}"], ["x2://{x}", "x3://{x}"], ["x4://{x}"]]


async def test_full_last_page_has_no_cursor(serve: Serve) -> None:
    peer = await serve(first, page_size=2)
    serve.server.add_tool(_nothing, name="second")

    assert "nextCursor" not in await peer.request("tools/list")


async def test_cursor_stays_valid_while_the_list_changes(serve: Serve) -> None:
    peer = await serve(first, page_size=2)
    for number in range(6):
        serve.server.add_tool(_nothing, name=f"t{number}")
    page = await peer.request("tools/list")

    serve.server.remove_tool("first")
    serve.server.add_tool(_nothing, name="late")
    rest = await peer.request("tools/list", {"cursor": page["nextCursor"]})

    assert [tool["name"] for tool in rest["tools"]] == ["t1", "t2"]


async def test_cursor_stays_valid_when_the_last_listed_tool_is_removed(serve: Serve) -> None:
    peer = await serve(first, page_size=2)
    for number in range(6):
        serve.server.add_tool(_nothing, name=f"t{number}")
    page = await peer.request("tools/list")

    serve.server.remove_tool("t0")
    rest = await peer.request("tools/list", {"cursor": page["nextCursor"]})

    assert [tool["name"] for tool in rest["tools"]] == ["t1", "t2"]


async def test_cursor_stays_valid_when_several_listed_tools_are_removed(serve: Serve) -> None:
    peer = await serve(first, page_size=2)
    for number in range(4):
        serve.server.add_tool(_nothing, name=f"t{number}")
    page = await peer.request("tools/list")

    serve.server.remove_tool("first")
    serve.server.remove_tool("t0")
    rest = await peer.request("tools/list", {"cursor": page["nextCursor"]})

    assert [tool["name"] for tool in rest["tools"]] == ["t1", "t2"]


async def test_restored_tool_keeps_its_position(serve: Serve) -> None:
    """A plugin that restarts restores its tools."""
    peer = await serve(first, page_size=2)
    for number in range(4):
        serve.server.add_tool(_nothing, name=f"t{number}")
    page = await peer.request("tools/list")

    for name in ("first", "t0"):
        serve.server.remove_tool(name)
    serve.server.add_tool(_nothing, name="t0")
    serve.server.add_tool(first)
    rest = await peer.request("tools/list", {"cursor": page["nextCursor"]})

    assert [tool["name"] for tool in rest["tools"]] == ["t1", "t2"]
    assert [tool["name"] for tool in (await peer.request("tools/list"))["tools"]] == ["first", "t0"]


async def test_cursor_of_another_client_is_accepted(serve: Serve) -> None:
    peer = await serve(first, page_size=1)
    serve.server.add_tool(_nothing, name="second")
    page = await peer.request("tools/list")

    other = await serve.connect()

    assert (await other.request("tools/list", {"cursor": page["nextCursor"]}))["tools"][0]["name"] == "second"


async def test_invented_cursor_is_refused(serve: Serve) -> None:
    peer = await serve(first, first_prompt, page_size=1)
    serve.server.add_prompt(_nothing, name="second")
    foreign = (await peer.request("prompts/list"))["nextCursor"]

    for cursor in ("", "x", "AAAA", foreign, "A" * 10_000, base64.b64encode(b"tool\0nine\0first").decode(), "\u2028"):
        error = await peer.error("tools/list", {"cursor": cursor})

        assert error["code"] == INVALID_PARAMS, cursor
        assert "cursor" in error["message"]


@only(revisions=MODERN, because="only 2026-07-28 allows clients to cache lists")
async def test_every_page_has_the_same_ttl_and_cache_scope(serve: Serve) -> None:
    peer = await serve(first, page_size=1, list_ttl_ms=5)
    serve.server.add_tool(_nothing, name="second")

    page = await peer.request("tools/list")
    rest = await peer.request("tools/list", {"cursor": page["nextCursor"]})

    assert (page["ttlMs"], page["cacheScope"]) == (rest["ttlMs"], rest["cacheScope"])
