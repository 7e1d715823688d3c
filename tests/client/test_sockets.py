"""A client of a server on a socket: targets as text, as value and from a file, and errors."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import Client, ConfigError, ConnectionClosed, MCPError, Server, Socket, connect
from mcptrio.cli.client.targets import TargetOptions, find_target
from mcptrio.connecting.mcp_json import load_mcp_json
from mcptrio.errors import RequestFailed
from mcptrio.serve.stream import serve_stream
from mcptrio.serving import (
    StreamOptions,
)
from mcptrio.transports.sockets import listen
from tests.test_serve_stream import eventually, exists

__all__: list[str] = []

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

WAIT_TIMEOUT = 60


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path / 'mcp.sock'}"


def make_server() -> Server:
    server = Server("there", version="1")

    async def shout(text: str) -> str:
        return text.upper()

    server.add_tool(shout)
    return server


async def shouted(client: Client) -> str:
    (block,) = (await client.call_tool("shout", {"text": "hey"})).content
    return str(block.text)  # type: ignore[union-attr]


async def test_connect_to_a_socket_in_each_notation(address: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            tcp, unix = await nursery.start(partial(serve_stream, make_server(), ["127.0.0.1:0", address]))
            file.write_text(json.dumps({"mcpServers": {"one": {"url": tcp}, "two": {"url": unix}}}))
            entries = load_mcp_json(file)
            slashes = address.replace("unix:", "unix://")
            targets: list[Any] = [tcp, unix, slashes, Socket(address=tcp), {"url": unix}]
            targets += [entries.read("one"), find_target(TargetOptions(target=f"{file}#two")).target]
            targets += [find_target(TargetOptions(target=tcp)).target]
            for target in targets:
                async with connect(target) as client:
                    assert await shouted(client) == "HEY"
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("tcp://localhost", "expected tcp://host:port"),
        ("tcp://localhost:0", "expected a port from 1 to 65535"),
        ("tcp://localhost:9000/path", "expected tcp://host:port"),
        ("unix:", "expected the path of a socket"),
        (Socket(address="udp://localhost:1"), "expected tcp://host:port or unix:/path"),
        ({"url": "tcp://localhost"}, "entry: .*url: expected tcp://host:port"),
        ({"url": "unix:/x", "type": "http"}, "type: expected no type with a socket as url"),
        ({"url": "unix:/x", "headers": {"a": "b"}}, "headers: expected no headers with a socket as url"),
    ],
)
async def test_invalid_socket_address_is_refused(target: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        async with connect(target):
            raise AssertionError("connected")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"env": ("A=b",)}, "--env: expected a command as TARGET, got a socket"),
        ({"headers": ("A=b",)}, "--header: expected a URL as TARGET, got a socket"),
    ],
)
def test_option_without_effect_on_a_socket_is_refused(options: dict[str, Any], problem: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"one": {"url": "unix:/x"}}}')
    with pytest.raises(ConfigError, match=problem):
        find_target(TargetOptions(target="unix:/x", **options))
    with pytest.raises(ConfigError, match=problem):
        find_target(TargetOptions(target=f"{file}#one", **options))


async def test_failed_connection_error_names_the_cause(address: str, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refused = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
        for target, why in [
            (refused, "Connection refused"),
            (address, "No such file or directory"),
            ("tcp://nowhere.invalid:1", "(Name or service not known|Temporary failure in name resolution|No address)"),
        ]:
            with pytest.raises(RequestFailed, match=f"^cannot connect to {target}: {why}") as caught:
                async with connect(target):
                    raise AssertionError("connected")
            assert caught.value.delivered is False


@pytest.mark.skipif(sys.platform != "linux", reason="others let more connections wait than were asked for")
async def test_connecting_to_a_socket_times_out() -> None:
    """A listener with a full queue keeps new connections waiting."""
    with closing(listen("127.0.0.1:0", backlog=0)) as listening:
        where = listening.sockets[0].getsockname()
        with socket.create_connection(where):
            target = Socket(address=f"tcp://{listening.names[0]}", connect_timeout=0.2)
            with pytest.raises(RequestFailed, match=r"no connection to tcp://.* within 0\.2 seconds"):
                async with connect(target):
                    raise AssertionError("connected")


async def test_server_with_all_connections_in_use_is_an_error(address: str) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve_stream, make_server(), address, options=StreamOptions(connections=1)))
            async with connect(address) as client:
                for revision in (None, "2025-11-25"):
                    with pytest.raises(MCPError, match="too many connections: the limit is 1"):
                        async with connect(address, revision=revision):
                            raise AssertionError("connected")
                assert await shouted(client) == "HEY"
            nursery.cancel_scope.cancel()


async def test_connection_to_a_restarted_server_is_restored(address: str) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            shutdown = trio.Event()
            await nursery.start(partial(serve_stream, make_server(), address, shutdown=shutdown))
            async with connect(address, restart=True) as lasting, connect(address) as single:
                assert await shouted(lasting) == await shouted(single) == "HEY"
                shutdown.set()
                await eventually(lambda: not exists(address))
                await nursery.start(partial(serve_stream, make_server(), address))
                while True:
                    try:
                        assert await shouted(lasting) == "HEY"
                        break
                    except ConnectionClosed:
                        await trio.sleep(0.01)  # the client has not yet noticed the closed connection
                with pytest.raises(ConnectionClosed):
                    await shouted(single)
            nursery.cancel_scope.cancel()
