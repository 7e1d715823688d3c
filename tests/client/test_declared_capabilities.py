"""A client sends no request whose capability is undeclared, and sends the members of `_meta` unchanged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from mcptrio import Client
from mcptrio.client import Handlers
from mcptrio.errors import MethodNotFound
from mcptrio.protocol.messages import Request
from tests.client.scripted import EVERYTHING, play, text
from tests.interaction.applies import HANDSHAKE, MODERN

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], MODERN[-1]

Use = Callable[[Client], Awaitable[Any]]

USES: dict[str, Use] = {
    "tools": lambda client: client.call_tool("work"),
    "prompts": lambda client: client.prompts().all(),
    "resources": lambda client: client.read_resource("note:///1"),
    "completions": lambda client: client.complete("prompt", "write", "topic", "t"),
}


@pytest.mark.parametrize("revision", [OLD, NEW])
@pytest.mark.parametrize("capability", USES)
async def test_request_whose_capability_is_not_declared_is_not_sent(revision: str, capability: str) -> None:
    declared = {name: value for name, value in EVERYTHING.items() if name != capability}
    async with play(revision, capabilities=declared) as (client, script):
        with pytest.raises(MethodNotFound, match=f"does not declare the capability `{capability}`, so .* was not sent"):
            await USES[capability](client)
        await script.expect_nothing()


async def test_completion_is_sent_in_revisions_without_its_capability() -> None:
    async with play(HANDSHAKE[0], capabilities={"prompts": {}}) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.next_request("completion/complete"), {"completion": {"values": ["trio"]}})

        nursery.start_soon(serve)
        assert (await client.complete("prompt", "write", "topic", "t")).values == ("trio",)


async def test_raw_request_is_sent_without_a_declared_capability() -> None:
    async with play(OLD, capabilities={}) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.next_request("prompts/list"), {"prompts": []})

        nursery.start_soon(serve)
        await client.request("prompts/list", {})


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_roots_changed_is_sent_only_if_roots_are_declared(revision: str) -> None:
    async with play(revision) as (client, script):
        with pytest.raises(MethodNotFound, match="declares no roots"):
            await client.roots_changed()
        await script.expect_nothing()
    async with play(revision, handlers=Handlers(roots=[])) as (client, _):
        await client.roots_changed()


async def test_completion_of_an_unknown_reference_is_refused() -> None:
    async with play(OLD) as (client, script):
        with pytest.raises(ValueError, match="expected 'prompt' or 'resource', got 'template'"):
            await client.complete("template", "note:///{n}", "n", "")  # type: ignore[arg-type]
        await script.expect_nothing()


TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "a=1"}

METHODS: dict[str, Use] = {
    "ping": lambda client: client.ping(meta=TRACE),
    "tools/list": lambda client: client.tools(meta=TRACE).all(),
    "tools/call": lambda client: client.call_tool("work", meta=TRACE),
    "prompts/list": lambda client: client.prompts(meta=TRACE).all(),
    "prompts/get": lambda client: client.get_prompt("write", meta=TRACE),
    "resources/list": lambda client: client.resources(meta=TRACE).all(),
    "resources/templates/list": lambda client: client.resource_templates(meta=TRACE).all(),
    "resources/read": lambda client: client.read_resource("note:///1", meta=TRACE),
    "completion/complete": lambda client: client.complete("prompt", "write", "topic", "t", meta=TRACE),
}
RESULTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": []},
    "tools/call": text("done"),
    "prompts/list": {"prompts": []},
    "prompts/get": {"messages": []},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": []},
    "completion/complete": {"completion": {"values": []}},
    "server/discover": {"supportedVersions": [NEW], "capabilities": {}, "ttlMs": 0, "cacheScope": "private"},
}


async def follow(client: Client) -> None:
    async with client.start_tool("work", meta=TRACE) as call:
        await call.result()


@pytest.mark.parametrize("revision", [OLD, NEW])
@pytest.mark.parametrize("use", [*METHODS.values(), follow], ids=[*METHODS, "start_tool"])
async def test_trace_context_is_sent_unchanged(revision: str, use: Use) -> None:
    async with play(revision) as (client, script), trio.open_nursery() as nursery:
        asked: list[Request] = []

        async def serve() -> None:
            request = await script.next_request()
            asked.append(request)
            await script.answer(request, RESULTS.get(request.method))

        nursery.start_soon(serve)
        await use(client)
    [request] = asked
    assert request.params is not None
    assert TRACE.items() <= request.params["_meta"].items()
