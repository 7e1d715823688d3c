"""Encoded list pages are cached, and clients see no difference."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

import mcptrio
from mcptrio import MCPError, Server, tool
from mcptrio.capabilities.page_cache import PageCache
from mcptrio.capabilities.registry import Registry
from mcptrio.capabilities.tool_entries import ToolEntry
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import Response
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS
from mcptrio.serving import ServerSettings

__all__: list[str] = []


class Many:
    """A plugin with several entries of each kind."""

    @tool(title="é", read_only=True)
    def first(self, x: int) -> str:
        return str(x)

    @tool
    def second(self) -> dict[str, int]:
        return {}

    @mcptrio.resource("memo://one")
    def one(self) -> str:
        return ""

    @mcptrio.resource("memo://{name}")
    def named(self, name: str) -> str:
        return name

    @mcptrio.prompt
    def greet(self, who: str) -> str:
        return who


@pytest.mark.parametrize("revision", REVISIONS)
async def test_repeated_listing_returns_the_same_pages(revision: str) -> None:
    server = Server(plugins=[Many()], settings=ServerSettings(page_size=1))
    async with server.open():

        async def seen() -> list[object]:
            async with mcptrio.connect(server, revision=revision) as client:
                tools = [tool async for tool in client.tools()]
                resources = [each async for each in client.resources()]
                templates = [each async for each in client.resource_templates()]
                prompts = [each async for each in client.prompts()]
                return [tools, resources, templates, prompts]

        first = await seen()
        assert [len(each) for each in first if isinstance(each, list)] == [2, 1, 1, 1]
        assert await seen() == first


async def test_change_of_a_list_is_visible_at_once() -> None:
    server = Server(plugins=[Many()])
    async with server.open(), mcptrio.connect(server) as client:
        assert [tool.name async for tool in client.tools()] == ["first", "second"]
        server.add_tool(lambda: "", name="third")
        async with mcptrio.connect(server) as another:
            assert [tool.name async for tool in another.tools()] == ["first", "second", "third"]
        server.remove_tool("first")
        async with mcptrio.connect(server) as another:
            assert [tool.name async for tool in another.tools()] == ["second", "third"]


async def test_unencodable_tool_fails_only_its_own_listing() -> None:
    server = Server(plugins=[Many()])
    async with server.open(), mcptrio.connect(server) as client:
        server.add_tool(lambda: "", name="odd", description="\ud800")
        with pytest.raises(MCPError, match="cannot be written as JSON"):
            await client.request("tools/list")
        server.remove_tool("odd")
        assert len((await client.request("tools/list")).tools) == 2


def test_cached_pages_are_limited_for_any_cursors() -> None:
    server = Server(plugins=[Many()], settings=ServerSettings(page_size=1))
    registry: Registry[ToolEntry] = server.catalog.tools.registry
    made: list[str | None] = []

    def result(entries: list[ToolEntry], cursor: str | None) -> object:
        made.append(cursor)
        return server.catalog.tools._list_result(entries, cursor, fallback=False)

    pages = PageCache(registry, "tools", result, size=1)
    first = pages.page(LATEST, None)
    pages.page(LATEST, None)
    assert len(made) == 1
    first["_meta"] = {"a": "caller's own"}
    assert "_meta" not in pages.page(LATEST, None)
    assert b'"first"' in encode(Response(1, first))
    # Other spellings of the same page: each is a valid cursor of this list.
    for position in range(200):
        pages.page(LATEST, urlsafe_b64encode(f"tool\0{position}\0first".encode()).decode().rstrip("="))
    assert len(pages._pages) <= 64
