"""Servers that restart: the client's state meanwhile, and failed attempts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from mcptrio import Client, ConnectionClosed, connect
from mcptrio.types import TextContent

__all__: list[str] = []

SERVER = """
import json, pathlib, sys
starts = pathlib.Path(sys.argv[1])
number = len(starts.read_text()) + 1
starts.write_text("x" * number)
plan = sys.argv[2].split()[number - 1]
if plan == "fails":
    sys.exit(3)
for line in sys.stdin:
    message = json.loads(line)
    result = {}
    if plan == "hangs":
        continue
    if message["method"] == "initialize":
        if plan == "refuses":
            error = {"code": -32000, "message": "not now"}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
            continue
        info = {"name": "mortal", "version": str(number)}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/call":
        if message["params"]["name"] == "die":
            sys.exit(7)
        result = {"content": [{"type": "text", "text": f"life {number}"}]}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    """A file with a letter for each time the server was started."""
    path = tmp_path / "starts"
    path.touch()
    return path


def mortal(starts: Path, *plans: str) -> list[str]:
    """A command that behaves as planned, with one word for each start."""
    return [sys.executable, "-c", SERVER, str(starts), " ".join(plans)]


async def start_count(starts: Path) -> int:
    """Return how often the server was started."""
    return len(await trio.Path(starts).read_text())


async def die(client: Client) -> None:
    with pytest.raises(ConnectionClosed, match="exit code 7"):
        await client.call_tool("die")


async def test_failed_restart_is_tried_again(starts: Path) -> None:
    command = mortal(starts, "works", "refuses", "works")
    async with connect(command, revision="2025-11-25", restart=True) as client:
        await die(client)

        with trio.fail_after(60):
            assert (await client.call_tool("live")).content == (TextContent(text="life 3"),)
        assert client.server_info is not None
        assert client.server_info.version == "3"


async def test_server_details_stay_available_during_a_restart(starts: Path) -> None:
    async with connect(mortal(starts, "works", "hangs"), revision="2025-11-25", restart=True) as client:
        await die(client)
        with trio.fail_after(60):
            while await start_count(starts) < 2:  # noqa: ASYNC110 - another process writes it
                await trio.sleep(0.02)

        assert client.revision == "2025-11-25"
        assert client.capabilities.tools is not None
        assert client.server_info is not None
        assert client.server_info.version == "1"


async def test_server_details_stay_available_after_the_server_exits(starts: Path) -> None:
    async with connect(mortal(starts, "works"), revision="2025-11-25") as client:
        await die(client)

        assert client.capabilities.tools is not None
        with pytest.raises(ConnectionClosed, match="exit code 7"):
            await client.call_tool("live")
    assert await start_count(starts) == 1


async def test_failed_first_start_is_not_tried_again(starts: Path) -> None:
    """``connect`` reports the failure at once."""
    with pytest.raises(ConnectionClosed, match="exit code 3"):
        async with connect(mortal(starts, "fails"), revision="2025-11-25", restart=True):
            pass
    assert await start_count(starts) == 1
