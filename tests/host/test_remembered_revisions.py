"""The host remembers the negotiated revision of a server, and negotiates again when the server has changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import trio

from mcptrio import Command, Host
from mcptrio.abc import MessageChannel
from mcptrio.client import ClientTimeouts
from mcptrio.host import HostOptions
from tests.error_codes import METHOD_NOT_FOUND
from tests.host.scripted import Scripted

__all__: list[str] = []

SILENT = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    print(message["method"], file=open("heard", "a"))
    if message["method"] == "initialize":
        info = {"name": "old", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif message["method"] == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}), flush=True)
"""
"""An old server that does not answer unknown requests."""


async def test_readded_server_is_not_probed_again(tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text(SILENT)
    command = Command(args=[sys.executable, "silent.py"], cwd=tmp_path)
    options = HostOptions(timeouts=ClientTimeouts(probe=1.0), ready_timeout=20)
    with trio.fail_after(90):
        async with Host({"one": command}, approve=None, options=options) as host:
            await host.settle()
            await host.remove("one")
            host.add("two", command)
            assert (await host.settle())["two"].revision == "2025-06-18"

    heard = (tmp_path / "heard").read_text().split()
    assert heard.count("server/discover") == 1
    assert heard.count("initialize") == 2


async def test_server_replaced_by_a_newer_one_is_negotiated_again(autojump_clock: trio.abc.Clock) -> None:
    """The newer one refuses the handshake."""
    is_new = False

    async def discover(*_: Any) -> Any:
        if not is_new:
            return METHOD_NOT_FOUND, "no such method"
        return {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "resultType": "complete",
            "ttlMs": 0,
        }

    async def initialize(server: Scripted, channel: MessageChannel, params: dict[str, Any]) -> Any:
        if is_new:
            return METHOD_NOT_FOUND, "no such method"
        info = {"name": "old", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}

    server = Scripted({"server/discover": discover, "initialize": initialize})
    async with Host({"one": server}, approve=None, options=HostOptions(ready_timeout=60)) as host:
        assert (await host.settle())["one"].revision == "2025-06-18"
        is_new = True
        await server.channel.aclose()
        await trio.sleep(10)
        status = host.status["one"]

    assert (status.state, status.revision) == ("ready", "2026-07-28")
