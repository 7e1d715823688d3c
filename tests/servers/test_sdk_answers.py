"""The answers of the official SDKs' servers, in every revision and over all their transports."""

from __future__ import annotations

from typing import Any

import pytest

from mcptrio import MCPError, connect
from mcptrio.types import BlobResourceContents, TextContent, TextResourceContents
from tests.error_codes import INVALID_PARAMS
from tests.servers.ways import HANDSHAKE, TIMEOUTS, Way, text, ways

__all__: list[str] = []

MAIN = ways("stdio", "http", "sse")
# The older revisions do not differ over stdio, where each combination is one more process.
EVERY = [*MAIN, *ways("json", "stateless"), *ways("http", revisions=HANDSHAKE[:-1])]


@pytest.mark.parametrize("way", EVERY, indirect=True, ids=str)
async def test_sdk_server_info_and_tools_are_read(way: Way, target: Any) -> None:
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision) as client:
        assert client.revision == way.revision
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == (f"{way.sdk}-sdk", "1.0")
        assert client.instructions == "Greet first."
        assert None not in (client.capabilities.tools, client.capabilities.prompts, client.capabilities.resources)
        assert await client.ping() >= 0

        tools = {tool.name: tool for tool in await client.tools().all()}
        assert {"add", "media", "locate", "refuse", "crash", "count", "linger", "touch"} <= tools.keys()
        assert tools["add"].input_schema["required"] == ["a", "b"]
        assert (tools["add"].output_schema is not None) == way.since("2025-06-18")

        added = await client.call_tool("add", {"a": 1, "b": 2})
        if way.since("2025-06-18"):
            assert added.structured_content == {"total": 3}
        assert not added.is_error

        kinds = [type(block).__name__ for block in (await client.call_tool("media")).content]
        # The SDKs send older revisions members that these do not define.
        assert kinds == [
            "TextContent",
            "ImageContent",
            "AudioContent" if way.since("2025-03-26") else "UnknownContent",
            "ResourceLink" if way.since("2025-06-18") else "UnknownContent",
            "EmbeddedResource",
        ]

        # For arguments in headers: one value that a header cannot contain unchanged.
        assert [await text(client, "locate", region=region) for region in ("Oslo", "Zürich")] == [
            "in Oslo",
            "in Zürich",
        ]


@pytest.mark.parametrize("way", MAIN, indirect=True, ids=str)
async def test_failures_of_sdk_tools_are_reported(way: Way, target: Any) -> None:
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision) as client:
        refused = await text(client, "refuse", reason="not today")
        assert refused.startswith("error: ")
        assert refused.endswith("not today")
        assert (await text(client, "crash")).startswith("error: ")
        assert (await text(client, "add", a="one", b=2)).startswith("error: ")
        if way.sdk == "python":
            assert await text(client, "no_such_tool") == "error: Unknown tool: no_such_tool"
        else:
            with pytest.raises(MCPError, match="no_such_tool") as unknown:
                await client.call_tool("no_such_tool")
            assert unknown.value.code == INVALID_PARAMS

        # A tool that prints: with the SDK for TypeScript the line is on standard output, among the messages.
        assert [await text(client, "mutter") for _ in range(2)] == ["muttered"] * 2


@pytest.mark.parametrize("way", MAIN, indirect=True, ids=str)
async def test_sdk_resources_and_prompts_are_read(way: Way, target: Any) -> None:
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision) as client:
        assert {"memo://today", "memo://logo"} <= {resource.uri for resource in await client.resources().all()}
        templates = {template.uri_template for template in await client.resource_templates().all()}
        assert templates == {"memo://{day}/{topic}", "ask://{topic}"}

        (today,) = (await client.read_resource("memo://today")).contents
        (logo,) = (await client.read_resource("memo://logo")).contents
        (memo,) = (await client.read_resource("memo://monday/cats")).contents
        assert today == TextResourceContents(uri="memo://today", text="# Today", mime_type="text/markdown")
        assert logo == BlobResourceContents(uri="memo://logo", blob="iVBORw==", mime_type="image/png")
        assert isinstance(memo, TextResourceContents)
        assert memo.text == "cats on monday"
        with pytest.raises(MCPError, match="memo://nowhere"):
            await client.read_resource("memo://nowhere")

        prompts = {prompt.name: prompt for prompt in await client.prompts().all()}
        assert list(prompts) == ["review", "plain", "interview"]
        arguments = prompts["review"].arguments or ()
        assert [(each.name, each.required) for each in arguments] == [("code", True), ("language", False)]
        assert [len(page.prompts) async for page in client.prompts().pages()] == [2, 1]

        (message,) = (await client.get_prompt("review", {"code": "1 + 1"})).messages
        assert message.content == TextContent(text="Review this python: 1 + 1")
        for name in ("review", "no_such_prompt"):
            with pytest.raises(MCPError):
                await client.get_prompt(name)

        assert (await client.complete("prompt", "review", "language", "r")).values == ("rust", "ruby")
        topic = ("memo://{day}/{topic}", "topic", "c")
        assert (await client.complete("resource", *topic)).values == ()
        assert (await client.complete("resource", *topic, context={"day": "monday"})).values == ("cats", "cars")


@pytest.mark.parametrize("way", ways("http", "json", "stateless", revisions=("2026-07-28",)), indirect=True, ids=str)
async def test_newest_common_revision_is_negotiated(way: Way, target: Any) -> None:
    async with connect(target, timeouts=TIMEOUTS) as client:
        assert client.revision == way.revision
