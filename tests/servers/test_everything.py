"""`@modelcontextprotocol/server-everything`, a widely used server for testing clients, over its three transports.

It is written with the first SDK for TypeScript and speaks handshake revisions only, which the client has to find out.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from base64 import b64decode
from typing import Any

import pytest
import trio
from attrs import evolve

from mcptrio import Endpoint, MCPError, connect
from mcptrio.client import Change, Form, Handlers, OpenURL, Progress
from mcptrio.errors import TaskCancelled, URLElicitationRequired
from mcptrio.types import (
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from tests.servers.ways import TIMEOUTS, WAIT_TIMEOUT, User, text, text_of, until

__all__: list[str] = []

ASKING_TOOLS = {
    "get-roots-list",
    "simulate-research-query",
    "trigger-elicitation-request",
    "trigger-sampling-request",
    "trigger-url-elicitation",
}


@pytest.fixture(scope="session", params=["command", "http_url", "sse_url", "sse_url_found_out"])
def target(request: pytest.FixtureRequest) -> Any:
    name: str = request.param
    if name == "command":
        return request.getfixturevalue("everything_command")
    url = request.getfixturevalue(f"everything_{name.removesuffix('_found_out')}")
    return Endpoint(url=url, transport="sse" if name == "sse_url" else "auto")


async def test_everything_server_lists_are_read(target: Any) -> None:
    async with connect(target, timeouts=TIMEOUTS) as client:
        assert client.revision == "2025-11-25"
        assert client.server_info is not None
        assert client.server_info.name == "mcp-servers/everything"
        assert (client.instructions or "").startswith("# Everything Server")

        tools = {tool.name for tool in await client.tools().all()}
        assert {"echo", "get-sum", "get-structured-content", "trigger-long-running-operation"} <= tools
        assert ASKING_TOOLS & tools == {"simulate-research-query"}, "it offers to ask only who can answer"
        assert len(await client.resources().all()) == 7
        assert len(await client.resource_templates().all()) == 2
        assert [prompt.name for prompt in await client.prompts().all()] == [
            "simple-prompt",
            "args-prompt",
            "completable-prompt",
            "resource-prompt",
        ]


async def test_everything_server_tools_return_their_results(target: Any) -> None:
    async with connect(target, timeouts=TIMEOUTS) as client:
        assert await text(client, "echo", message="Zoë 🌊") == "Echo: Zoë 🌊"
        assert await text(client, "get-sum", a=1, b=2.5) == "The sum of 1 and 2.5 is 3.5."
        assert (await text(client, "echo")).startswith("error: MCP error -32602")
        assert await text(client, "nope") == "error: MCP error -32602: Tool nope not found"

        weather = await client.call_tool("get-structured-content", {"location": "Chicago"})
        assert weather.structured_content == {
            "temperature": 36,
            "conditions": "Light rain / drizzle",
            "humidity": 82,
        }
        image = (await client.call_tool("get-tiny-image")).content[1]
        assert isinstance(image, ImageContent)
        assert b64decode(image.data).startswith(b"\x89PNG")
        marked = (await client.call_tool("get-annotated-message", {"messageType": "error"})).content[0]
        assert isinstance(marked, TextContent)
        assert marked.annotations is not None
        assert (marked.annotations.priority, marked.annotations.audience) == (1, ("user", "assistant"))
        links = (await client.call_tool("get-resource-links", {"count": 2})).content[1:]
        assert [link.uri for link in links if isinstance(link, ResourceLink)] == [
            "demo://resource/dynamic/blob/1",
            "demo://resource/dynamic/text/2",
        ]
        embedded = (await client.call_tool("get-resource-reference", {"resourceType": "Blob"})).content[1]
        assert isinstance(embedded, EmbeddedResource)
        assert isinstance(embedded.resource, BlobResourceContents)


async def test_everything_server_resources_are_read(target: Any) -> None:
    async with connect(target, timeouts=TIMEOUTS) as client:
        (document,) = (await client.read_resource("demo://resource/static/document/features.md")).contents
        assert isinstance(document, TextResourceContents)
        assert document.mime_type == "text/markdown"
        assert document.text.startswith("# Everything Server")
        (dynamic,) = (await client.read_resource("demo://resource/dynamic/text/7")).contents
        assert isinstance(dynamic, TextResourceContents)
        assert dynamic.text.startswith("Resource 7:")

        made = await client.call_tool(
            "gzip-file-as-resource", {"name": "hello.gz", "data": "data:text/plain,hello", "outputType": "resourceLink"}
        )
        (link,) = made.content
        assert isinstance(link, ResourceLink)
        (packed,) = (await client.read_resource(link.uri)).contents
        assert isinstance(packed, BlobResourceContents)
        assert gzip.decompress(b64decode(packed.blob)) == b"hello"

        for uri in ("demo://nope", "demo://resource/dynamic/text/x"):
            with pytest.raises(MCPError, match=uri):
                await client.read_resource(uri)


async def test_everything_server_prompts_and_completion_work(target: Any) -> None:
    async with connect(target, timeouts=TIMEOUTS) as client:
        (weather,) = (await client.get_prompt("args-prompt", {"city": "Oslo"})).messages
        assert weather.content == TextContent(text="What's weather in Oslo?")
        with pytest.raises(MCPError, match="args-prompt"):
            await client.get_prompt("args-prompt")
        filled = await client.get_prompt("resource-prompt", {"resourceType": "Text", "resourceId": "1"})
        assert isinstance(filled.messages[1].content, EmbeddedResource)

        completion = await client.complete("prompt", "completable-prompt", "department", "S")
        assert (completion.values, completion.total, completion.has_more) == (("Sales", "Support"), 2, False)
        completion = await client.complete("prompt", "completable-prompt", "name", "D", context={"department": "Sales"})
        assert completion.values == ("David",)
        completion = await client.complete("resource", "demo://resource/dynamic/text/{resourceId}", "resourceId", "7")
        assert completion.values == ("7",)


async def test_everything_server_requests_are_answered(target: Any) -> None:
    user = User()
    async with connect(target, timeouts=TIMEOUTS, handlers=user.handlers()) as client:
        # The server requests the roots a third of a second after the handshake.
        await until(lambda: ("info", "Roots updated: 1 root(s) received from client", "everything-server") in user.logs)
        assert {tool.name for tool in await client.tools().all()} >= ASKING_TOOLS
        assert "file:///srv/data" in await text(client, "get-roots-list")

        thought = await text(client, "trigger-sampling-request", prompt="tea", maxTokens=20)
        assert '"text": "Resource trigger-sampling-request context: tea!"' in thought
        assert await text(client, "trigger-url-elicitation", url="https://example.com/x", elicitationId="e1") == (
            "✅ User completed the URL elicitation flow.\nElicitation ID: e1\nURL: https://example.com/x"
        )

    assert user.asked == [
        ("Resource trigger-sampling-request context: tea", 20, "You are a helpful test server."),
        "https://example.com/x",
    ]


async def test_everything_server_receives_changed_roots(target: Any) -> None:
    user, folders = User(), ["/srv/one"]

    async def tell() -> list[str]:
        return folders

    def updated(number: int) -> bool:
        return any(data == f"Roots updated: {number} root(s) received from client" for _, data, _ in user.logs)

    handlers = Handlers(roots=tell, log=user.handlers().log)
    async with connect(target, timeouts=TIMEOUTS, handlers=handlers) as client:
        await until(lambda: updated(1))
        folders.append("/srv/two")
        await client.roots_changed()
        await until(lambda: updated(2))
        assert "file:///srv/two" in await text(client, "get-roots-list")


async def test_everything_server_form_is_filled_in(target: Any) -> None:
    """The form has a field of every kind."""
    filled = {
        "name": "Zoë",
        "check": True,
        "email": "zoe@example.com",
        "homepage": "https://example.com/zoe",
        "birthdate": "2000-02-29",
        "titledMultipleSelectEnum": ["fish-1"],
    }

    async def fill_in(form: Form) -> Any:
        assert len(form.fields) == 13
        return filled

    async with connect(target, timeouts=TIMEOUTS, handlers=Handlers(elicit=fill_in)) as client:
        answer = await client.call_tool("trigger-elicitation-request")
        assert "trigger-url-elicitation" not in {tool.name for tool in await client.tools().all()}

    raw = answer.content[-1]
    assert isinstance(raw, TextContent)
    got = json.loads(raw.text.partition("Raw result: ")[2])
    assert got["action"] == "accept"
    assert filled.items() <= got["content"].items()
    assert (got["content"]["integer"], got["content"]["number"]) == (42, 3.14), "defaults are filled in"


async def test_everything_server_task_is_followed_and_its_question_answered(target: Any) -> None:
    """The tool requires a task, and asks its question only while the client waits for the result."""
    forms: list[Form] = []
    seen: list[Progress] = []

    async def fill_in(form: Form) -> Any:
        forms.append(form)
        return {"interpretation": "technical"}

    async with connect(target, timeouts=TIMEOUTS, handlers=Handlers(elicit=fill_in)) as client:
        arguments = {"topic": "cats", "ambiguous": True}
        result = await client.call_tool("simulate-research-query", arguments, progress=seen.append)

    assert text_of(result).startswith("# Research Report: cats (technical)")
    assert [form.message.partition(" could")[0] for form in forms] == ['The research query "cats"']
    assert seen[0].message == "Gathering sources..."


async def test_everything_server_task_is_found_again_and_cancelled(target: Any) -> None:
    async with connect(target, timeouts=TIMEOUTS) as client:
        async with client.start_tool("simulate-research-query", {"topic": "cats"}) as call:
            id = await call.detach()
        assert id is not None
        task = client.task(id)

        assert (await task.state()).status == "working"
        await task.cancel()
        with pytest.raises(TaskCancelled):
            await task.result()


def test_everything_server_task_is_called_in_the_shell(everything_http_url: str) -> None:
    command = ("-m", "mcptrio", "call", everything_http_url, "simulate-research-query", "topic=cats")
    result = subprocess.run(
        (sys.executable, *command), capture_output=True, text=True, timeout=WAIT_TIMEOUT, check=False
    )

    assert (result.returncode, result.stdout.startswith("# Research Report: cats")) == (0, True), result


async def test_everything_server_call_continues_after_required_pages_are_opened(target: Any) -> None:
    """The server refuses the call until the pages are opened, and never notifies their completion."""
    user = User()
    soon = evolve(TIMEOUTS, input=0.5)
    async with connect(target, timeouts=soon, handlers=user.handlers()) as client:
        opened = await text(client, "trigger-url-elicitation", url="https://example.com/y", errorPath=True)

    assert opened.startswith("✅ User completed the URL elicitation flow.")
    assert user.asked == ["https://modelcontextprotocol.io", "https://example.com/y"]


async def test_everything_server_call_fails_if_required_pages_are_declined(target: Any) -> None:
    async def decline(page: OpenURL) -> Any:
        return page.decline()

    async with connect(target, timeouts=TIMEOUTS, handlers=Handlers(open_url=decline)) as client:
        with pytest.raises(URLElicitationRequired):
            await client.call_tool("trigger-url-elicitation", {"url": "https://example.com/", "errorPath": True})
        assert await text(client, "echo", message="after it") == "Echo: after it"


async def test_everything_server_reports_progress_and_survives_a_cancelled_call(target: Any) -> None:
    received: list[Progress] = []
    async with connect(target, timeouts=TIMEOUTS) as client:
        slow = {"duration": 0.2, "steps": 2}
        result = await client.call_tool("trigger-long-running-operation", slow, progress=received.append)
        assert not result.is_error
        assert received == [Progress(1, 2), Progress(2, 2)]

        with trio.move_on_after(0.3) as given_up:
            await client.call_tool("trigger-long-running-operation", {"duration": 30, "steps": 1})
        assert given_up.cancelled_caught
        assert await text(client, "echo", message="after it") == "Echo: after it"


async def test_everything_server_changes_and_log_messages_are_received(target: Any) -> None:
    user = User()
    uri = "demo://resource/dynamic/text/1"
    async with connect(target, timeouts=TIMEOUTS, handlers=user.handlers(), log_level="debug") as client:
        async with client.subscribe([uri]) as changes:
            await text(client, "toggle-subscriber-updates")
            with trio.fail_after(WAIT_TIMEOUT):
                assert await changes.__anext__() == Change("resource", uri)
            await text(client, "toggle-subscriber-updates")
        user.logs.clear()
        await text(client, "toggle-simulated-logging")
        await until(
            lambda: any("evel message" in str(data) or "level-message" in str(data) for _, data, _ in user.logs)
        )
        await text(client, "toggle-simulated-logging")


async def test_everything_server_does_not_inherit_secrets(
    everything_command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server returns its environment to every client."""
    monkeypatch.setenv("A_SECRET_OF_OURS", "hunter2")
    async with connect(everything_command, timeouts=TIMEOUTS) as client:
        environment = json.loads(await text(client, "get-env"))

    assert "PATH" in environment
    assert "A_SECRET_OF_OURS" not in environment
