"""A client uses the schemas of tools: it validates results and repeats annotated arguments in headers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcptrio import Client, Context, Header, MCPError, Server, connect
from mcptrio.client.known_tools import KnownTools
from mcptrio.errors import Code, MissingClientCapability, RemoteProtocolError
from mcptrio.protocol.model.tools import ListToolsResult, Tool
from mcptrio.serve.http import serve_http
from mcptrio.serving import ServerSettings
from mcptrio.types import CallToolResult, TextContent
from tests.client.scripted import Script, play
from tests.interaction.applies import HANDSHAKE, MODERN, SINCE_2025_06

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], MODERN[-1]
COUNTED = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


def tool(name: str = "work", output: Any = None, **properties: Any) -> dict[str, Any]:
    """Return a tool of a list."""
    entry: dict[str, Any] = {"name": name, "inputSchema": {"type": "object", "properties": properties}}
    if output is not None:
        entry["outputSchema"] = output
    return entry


@asynccontextmanager
async def listing(
    revision: str, tools: list[dict[str, Any]], results: list[dict[str, Any]]
) -> AsyncIterator[tuple[Client, Script]]:
    """Yield a client of a server that lists these tools, and answers calls with these results in order."""
    async with play(revision) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            while True:
                request = await script.next_request()
                is_list = request.method == "tools/list"
                await script.answer(request, {"tools": tools} if is_list else results.pop(0))

        nursery.start_soon(serve)  # noqa: ASYNC113 - it answers whenever it comes to it
        yield client, script
        nursery.cancel_scope.cancel()


def methods(script: Script) -> list[str]:
    return [method for message in script.received if (method := getattr(message, "method", "")).startswith("tools/")]


# --- results


@pytest.mark.parametrize("revision", SINCE_2025_06)
@pytest.mark.parametrize("is_listed_before", [True, False], ids=["listed", "unlisted"])
async def test_result_is_checked_against_the_output_schema(revision: str, is_listed_before: bool) -> None:
    results = [{"content": [], "structuredContent": {"count": 1}}, {"content": [], "structuredContent": {"count": "1"}}]
    async with listing(revision, [tool(output=COUNTED)], results) as (client, script):
        if is_listed_before:
            await client.tools().all()
        assert (await client.call_tool("work")).structured_content == {"count": 1}
        with pytest.raises(RemoteProtocolError, match=r"tool `work`: structured content: .*count"):
            await client.call_tool("work")
    # The client lists the tools again before it rejects a result.
    assert methods(script)[-2:] == ["tools/call", "tools/list"]
    assert methods(script).count("tools/list") == 2


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_result_that_fits_a_changed_schema_is_returned(revision: str) -> None:
    """Without a subscription, the client is not notified of the change."""
    tools = [tool(output={"type": "object", "required": ["old"]})]
    results = [{"content": [], "structuredContent": {"new": 1}}, {"content": []}]
    async with listing(revision, tools, results) as (client, script):
        await client.tools().all()
        tools[:] = [tool(output={"type": "object", "required": ["new"]})]
        assert (await client.call_tool("work")).structured_content == {"new": 1}
        tools[:] = [tool()]
        assert (await client.call_tool("work")).content == ()
    assert methods(script) == ["tools/list", "tools/call", "tools/list", "tools/call", "tools/list"]


async def test_unanswered_tool_list_delays_a_result_up_to_its_timeout(autojump_clock: object) -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            while True:
                message: Any = await script.take(object)  # type: ignore[type-var]
                asked.append(message.method)
                if message.method == "tools/call":
                    await script.answer(message, {"content": [], "structuredContent": {"a": 1}})

        asked: list[str] = []
        nursery.start_soon(serve)
        took = []
        for timeout in (1.0, 60.0):
            began = trio.current_time()
            assert (await client.call_tool("work", timeout=timeout)).structured_content == {"a": 1}
            took.append(trio.current_time() - began)
        nursery.cancel_scope.cancel()
    assert took == [pytest.approx(1.0), pytest.approx(0.0)]
    assert sorted(asked) == ["notifications/cancelled", "tools/call", "tools/call", "tools/list"]


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_result_without_its_structured_content_is_refused(revision: str) -> None:
    async with listing(revision, [tool(output=COUNTED)], [{"content": []}]) as (client, _):
        await client.tools().all()
        with pytest.raises(RemoteProtocolError, match="tool `work`: expected structured content"):
            await client.call_tool("work")


async def test_error_result_needs_no_structured_content() -> None:
    async with listing(OLD, [tool(output=COUNTED)], [{"content": [], "isError": True}]) as (client, _):
        await client.tools().all()
        assert (await client.call_tool("work")).is_error


@pytest.mark.parametrize(
    ("output", "structured", "fits"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1, 2], True),
        ({"type": "array", "items": {"type": "integer"}}, [1, "2"], False),
        ({"type": "null"}, None, True),
        ({"type": "string"}, None, False),
        ({}, {"a": 1}, True),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 5, True),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "5", False),
    ],
    ids=str,
)
async def test_structured_content_may_be_any_json_since_2026_07_28(output: Any, structured: Any, fits: bool) -> None:
    results = [{"content": [], "structuredContent": structured}]
    async with listing(NEW, [tool(output=output)], results) as (client, _):
        await client.tools().all()
        if fits:
            assert (await client.call_tool("work")).structured_content == structured
        else:
            with pytest.raises(RemoteProtocolError, match="structured content"):
                await client.call_tool("work")


@pytest.mark.parametrize(
    "output",
    [
        {"type": "object", "$ref": "http://127.0.0.1:1/schema.json"},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": 5},
        {"type": "object", "$schema": "https://example.com/my-dialect"},
    ],
    ids=["network", "file", "no schema", "dialect"],
)
async def test_unusable_output_schema_is_ignored_and_fetches_nothing(
    output: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    results = [{"content": [], "structuredContent": {"a": 1}} for _ in range(2)]
    async with listing(NEW, [tool(output=output)], results) as (client, _):
        await client.tools().all()
        for _ in range(2):
            assert (await client.call_tool("work")).structured_content == {"a": 1}
    assert caplog.text.count("tool 'work': results are not checked") == 1


async def test_unlisted_tool_is_looked_up_once() -> None:
    results = [{"content": [], "structuredContent": {"a": 1}} for _ in range(3)]
    async with listing(OLD, [tool("another")], results) as (client, script):
        for _ in range(3):
            await client.call_tool("work")
    assert methods(script) == ["tools/call", "tools/list", "tools/call", "tools/call"]


async def test_result_is_returned_unchecked_if_the_tools_cannot_be_listed() -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def refuse() -> None:
            for _ in range(2):
                request = await script.next_request("tools/call")
                await script.answer(request, {"content": [], "structuredContent": {"a": 1}})
                await script.refuse(await script.next_request("tools/list"), Code.INTERNAL_ERROR, "no lists today")

        nursery.start_soon(refuse)
        for _ in range(2):
            assert (await client.call_tool("work")).structured_content == {"a": 1}


async def test_results_of_concurrent_calls_are_all_checked() -> None:
    """The second one waits for the list that the first one has requested."""
    failed: list[str] = []
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def call(name: str) -> None:
            with pytest.raises(RemoteProtocolError):
                await client.call_tool(name)
            failed.append(name)

        nursery.start_soon(call, "first")
        nursery.start_soon(call, "second")
        requests = [await script.next_request("tools/call"), await script.next_request("tools/call")]
        for request in requests:
            await script.answer(request, {"content": [], "structuredContent": {"count": "many"}})
        listing = await script.next_request("tools/list")
        await script.expect_nothing()
        await script.answer(listing, {"tools": [tool("first", COUNTED), tool("second", COUNTED)]})
    assert sorted(failed) == ["first", "second"]


async def test_schemas_are_listed_again_after_a_change_of_tools() -> None:
    counted = {"content": [], "structuredContent": {"count": 1}}
    tools = [tool(output=COUNTED)]
    async with listing(OLD, tools, [counted, counted, counted]) as (client, script):
        for _ in range(2):
            await client.call_tool("work")
        await script.notify("notifications/tools/list_changed")
        await wait_all_tasks_blocked()
        tools[:] = [tool(output={"type": "array"})]
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("work")
    assert methods(script) == ["tools/call", "tools/list", "tools/call", "tools/call", "tools/list"]


# --- headers


INVALID = {
    "empty": tool("empty", a={"type": "string", "x-mcp-header": ""}),
    "number": tool("number", a={"type": "number", "x-mcp-header": "A"}),
    "twice": tool("twice", a={"type": "string", "x-mcp-header": "A"}, b={"type": "string", "x-mcp-header": "a"}),
    "items": tool("items", a={"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
}


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_header_annotations_have_no_effect_without_http(revision: str) -> None:
    """Source: streamable-http, "Schema Extension": other transports may ignore them, and older revisions lack them."""
    async with play(revision) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.next_request("tools/list"), {"tools": list(INVALID.values())})

        nursery.start_soon(serve)
        assert [tool.name for tool in await client.tools().all()] == list(INVALID)


class Shop:
    """A server whose tool changes the header of an argument."""

    def __init__(self, ttl_ms: int = 0) -> None:
        self.server = Server(plugins=[], settings=ServerSettings(list_ttl_ms=ttl_ms))
        self.server.add_tool(self.by_region, name="buy")

    async def by_region(self, region: Annotated[str, Header("Region")], amount: int = 1) -> str:
        """Buy."""
        return f"bought {amount} in {region}"

    async def by_place(self, region: Annotated[str, Header("Place")], amount: int = 1) -> str:
        """Buy."""
        return f"bought {amount} at {region}"

    def change(self) -> None:
        self.server.remove_tool("buy")
        self.server.add_tool(self.by_place, name="buy")


@asynccontextmanager
async def served(server: Server, **options: Any) -> AsyncIterator[Client]:
    """Yield a client of this server over HTTP."""
    async with trio.open_nursery() as nursery:
        [url, *_] = await nursery.start(partial(serve_http, server, port=0))
        async with connect(url, **options) as client:
            yield client
        nursery.cancel_scope.cancel()


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("region", ["eu", "", " north ", "Zürich", "=?base64?eA==?=", "a\r\nb: c"])
async def test_annotated_arguments_are_sent_as_headers(region: str) -> None:
    """A server refuses a call without these headers."""
    async with served(Shop().server) as client:
        assert client.revision == NEW
        assert text_of(await client.call_tool("buy", {"region": region})) == f"bought 1 in {region}"


@pytest.mark.parametrize("revision", HANDSHAKE[1:])
async def test_older_revisions_send_no_parameter_headers(revision: str) -> None:
    async with served(Shop().server, revision=revision) as client:
        assert text_of(await client.call_tool("buy", {"region": "eu"})) == "bought 1 in eu"


@pytest.mark.parametrize("ttl_ms", [0, 3_600_000])
async def test_call_refused_for_its_headers_is_repeated_with_the_current_tools(ttl_ms: int) -> None:
    """The client is not notified of the change, and a cached list has the old headers."""
    shop = Shop(ttl_ms)
    async with served(shop.server) as client:
        assert text_of(await client.call_tool("buy", {"region": "eu"})) == "bought 1 in eu"
        shop.change()
        assert text_of(await client.call_tool("buy", {"region": "eu"})) == "bought 1 at eu"


async def test_raw_request_has_parameter_headers() -> None:
    shop = Shop()
    buy = {"name": "buy", "arguments": {"region": "eu"}}
    async with served(shop.server) as client:
        assert text_of(await client.request("tools/call", buy)) == "bought 1 in eu"
        shop.change()
        assert text_of(await client.request("tools/call", buy)) == "bought 1 at eu"


def test_removed_parameter_header_is_no_longer_sent() -> None:
    """This holds also without a change notification, if the client has requested the list again."""
    known = KnownTools()

    def add_page(**definition: Any) -> None:
        listed = Tool(name="buy", input_schema=tool(region=definition)["inputSchema"])
        known.add_page(ListToolsResult(tools=(listed,)), sends_param_headers=True)

    add_page(type="string", **{"x-mcp-header": "Region"})
    assert known.param_headers("buy") == {"region": ("region",)}
    add_page(type="string")
    assert known.param_headers("buy") == {}
    add_page(type="string", **{"x-mcp-header": "Region"})
    add_page(type="number", **{"x-mcp-header": "Region"})
    assert known.param_headers("buy") == {}
    assert "buy" not in known


async def test_concurrent_first_calls_all_have_their_headers(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop()
    received: list[str] = []
    async with served(shop.server) as client:

        async def buy(number: int) -> None:
            received.append(text_of(await client.call_tool("buy", {"region": str(number)})))

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(buy, number)
    assert sorted(received) == [f"bought 1 in {number}" for number in range(10)]


async def test_http_error_has_the_class_of_other_transports() -> None:
    server = Server()

    async def ask(ctx: Context) -> str:
        """Ask a client that cannot answer."""
        return str(await ctx.list_roots())

    server.add_tool(ask)
    async with served(server) as client:
        with pytest.raises(MissingClientCapability) as caught:
            await client.call_tool("ask")
        assert caught.value.required == {"roots": {}}
        with pytest.raises(MCPError):
            await client.request("no/such/method")
    assert json.dumps(caught.value.data) == '{"requiredCapabilities": {"roots": {}}}'
