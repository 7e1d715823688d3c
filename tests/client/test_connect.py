"""The targets of ``connect``, its errors, and connections that are lost and restored."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field

import mcptrio
from mcptrio.client import ClientTimeouts, ToolCall
from mcptrio.errors import RequestFailed
from mcptrio.serve.http import serve_http
from mcptrio.serving import (
    memory_channel_pair,
)
from mcptrio.types import TextContent
from tests.processes import held_port

__all__: list[str] = []

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
REVISIONS = (*HANDSHAKES, "2026-07-28")

MORTAL = """
import os

from mcptrio import tool


@tool
async def die() -> None:
    os._exit(3)
"""


def make_server() -> mcptrio.Server:
    server = mcptrio.Server("garden", version="2.0", instructions="Water it.")

    async def grow(name: str) -> str:
        """Grow a plant."""
        return f"{name} grows"

    async def bed() -> str:
        """A bed."""
        return "empty"

    server.add_tool(grow)
    server.add_resource(bed, "garden://bed")
    return server


@asynccontextmanager
async def serving(server: mcptrio.Server, port: int = 0) -> AsyncIterator[str]:
    """Serve on a socket, and yield the URL."""
    async with trio.open_nursery() as nursery:
        [url] = await nursery.start(partial(serve_http, server, port=port))
        try:
            yield url
        finally:
            nursery.cancel_scope.cancel()


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as held:
        yield held


async def grows(client: mcptrio.Client) -> bool:
    result = await client.call_tool("grow", {"name": "mint"})
    return result.content == (TextContent(text="mint grows"),)


@pytest.mark.parametrize("revision", [None, *REVISIONS])
async def test_connect_to_an_in_process_server(revision: str | None) -> None:
    async with mcptrio.connect(make_server(), revision=revision) as client:
        assert client.revision == (revision or "2026-07-28")
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("garden", "2.0")
        assert client.instructions == "Water it."
        assert client.capabilities.tools is not None
        assert await grows(client)
        assert await client.ping() >= 0


@pytest.mark.parametrize("revision", [None, *REVISIONS])
async def test_connect_to_a_url(revision: str | None) -> None:
    async with serving(make_server()) as url, mcptrio.connect(url, revision=revision) as client:
        assert client.revision == (revision or "2026-07-28")
        assert await grows(client)


async def test_connect_to_an_open_server_adds_a_client() -> None:
    server = make_server()
    async with server.open():
        async with mcptrio.connect(server) as first, mcptrio.connect(server, revision="2025-06-18") as second:
            assert await grows(first)
            assert await grows(second)
        assert server.is_open


async def test_connect_to_a_running_server_object() -> None:
    async with make_server().open() as running, mcptrio.connect(running) as one, mcptrio.connect(running) as other:
        assert await grows(one)
        assert await grows(other)


async def test_started_tool_call_returns_its_result() -> None:
    async with mcptrio.connect(make_server()) as client, client.start_tool("grow", {"name": "mint"}) as call:
        assert isinstance(call, ToolCall)
        assert (await call.result()).content == (TextContent(text="mint grows"),)


async def test_connect_to_a_channel() -> None:
    ours, theirs = memory_channel_pair()
    server = make_server()
    async with server.open() as running, trio.open_nursery() as nursery:
        nursery.start_soon(running.serve, theirs)
        async with mcptrio.connect(ours) as client:
            assert await grows(client)


@pytest.mark.parametrize(
    "entry", [{"url": "{url}"}, {"type": "http", "url": "{url}"}, {"type": "streamable-http", "url": "{url}"}]
)
async def test_connect_to_an_entry_of_mcp_json(entry: dict[str, str]) -> None:
    async with serving(make_server()) as url:
        filled = {name: value.format(url=url) for name, value in entry.items()}
        async with mcptrio.connect(filled) as client:
            assert await grows(client)


@pytest.mark.parametrize(
    ("target", "options", "problem"),
    [
        (42, {}, "target: expected a URL, a command, a Server"),
        ("", {}, "target: expected a command, got an empty one"),
        ([], {}, "target: expected a command, got an empty one"),
        ("program 'unclosed", {}, "target: expected a command"),
        ("https://", {}, "target: url: expected http://host/path"),
        (mcptrio.Endpoint(url="http://x/", headers={"Mcp-Method": "x"}), {}, "target: headers: Mcp-Method is set by"),
        (make_server(), {"restart": True}, "restart: not supported for a channel or an in-process server"),
        (["program"], {"revision": "2025-01-01"}, "revision: expected one of 2024-11-05"),
        (["program"], {"log_level": "loud"}, "log_level: expected one of debug"),
        (memory_channel_pair()[0], {"restart": True}, "restart: not supported for a channel"),
    ],
)
async def test_invalid_target_or_option_is_refused(target: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(mcptrio.ConfigError, match=problem):
        async with mcptrio.connect(target, **options):
            pass


async def test_connect_without_a_server_is_an_error() -> None:
    with held_port() as port, pytest.raises(RequestFailed, match=f"127.0.0.1:{port}"):
        async with mcptrio.connect(f"http://127.0.0.1:{port}/mcp"):
            pass


async def test_connect_to_a_silent_server_times_out() -> None:
    timeouts = ClientTimeouts(connect=0.4, probe=0.2)
    program = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(RequestFailed, match=r"did not answer within 0\.4 s"):
        async with mcptrio.connect(program, timeouts=timeouts):
            pass


@define
class Mortal:
    """A server that a test can stop."""

    scope: trio.CancelScope = field(factory=trio.CancelScope)
    ended: trio.Event = field(factory=trio.Event)

    async def end(self) -> None:
        self.scope.cancel()
        await self.ended.wait()


async def serve_until_cancelled(port: int, *, task_status: trio.TaskStatus[Mortal] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve at an address until cancelled."""
    mortal = Mortal()
    with mortal.scope:
        async with serving(make_server(), port):
            task_status.started(mortal)
            await trio.sleep_forever()
    mortal.ended.set()


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_session_forgotten_by_the_server_is_reopened(revision: str, port: int) -> None:
    """A new server at the same address answers 404; the caller does not notice."""
    async with trio.open_nursery() as nursery:
        first = await nursery.start(serve_until_cancelled, port)
        async with mcptrio.connect(f"http://127.0.0.1:{port}/mcp", revision=revision, ping_interval=0) as client:
            assert await grows(client)
            await first.end()
            second = await nursery.start(serve_until_cancelled, port)

            assert await grows(client)
            async with trio.open_nursery() as callers:
                for _ in range(5):
                    callers.start_soon(grows, client)
        await second.end()


async def test_unreachable_server_fails_only_the_current_request(port: int) -> None:
    async with trio.open_nursery() as nursery:
        first = await nursery.start(serve_until_cancelled, port)
        async with mcptrio.connect(f"http://127.0.0.1:{port}/mcp") as client:
            assert await grows(client)
            await first.end()
            with pytest.raises(RequestFailed):
                await grows(client)

            second = await nursery.start(serve_until_cancelled, port)
            assert await grows(client)
        await second.end()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_subscription_survives_a_restart_of_the_server(revision: str, tmp_path: Path) -> None:
    plugin = tmp_path / "mortal.py"
    plugin.write_text(MORTAL)
    command = mcptrio.Command(args=[sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(plugin)])
    async with mcptrio.connect(command, revision=revision, restart=True) as client:
        async with client.subscribe(tools=True) as changes:
            with pytest.raises(mcptrio.ConnectionClosed, match="exit code 3"):
                await client.call_tool("die")
            with trio.fail_after(60):
                change = await anext(changes)

            assert change.kind == "tools"
            assert [tool.name async for tool in client.tools()] == ["die"]


async def test_client_name_omits_credentials_of_the_url() -> None:
    async with serving(make_server()) as url:
        secret = url.replace("http://", "http://ada:hunter2@") + "?token=hunter3"
        async with mcptrio.connect(secret, revision="2025-11-25") as client:
            assert client.name == url
