"""The lines that ``mcptrio serve`` logs for requests, and the forms of the log."""

from __future__ import annotations

import json
import logging
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import Command, MCPError, connect
from mcptrio.abc.observers import RequestEnded
from mcptrio.serve.request_log import RequestLog
from tests.processes import serving
from tests.telemetry.collector import collecting

__all__: list[str] = []

DEADLINE = 60.0
"""Seconds; only a failing test waits this long."""
PLUGIN = """
import logging
from mcptrio import ToolError, tool

@tool
async def price(item: str) -> str:
    "Return a price."
    logging.getLogger("shop").debug("asked for %s", item)
    if item == "gold":
        raise ToolError("too dear")
    return f"{item}: 3"
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(PLUGIN)
    return tmp_path / "shop.py"


async def call_over_stdio(shop: Path, *words: str, **env: str) -> list[str]:
    """Make three calls, and return the lines of the log."""
    lines: list[str] = []
    args = [sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(shop), *words]
    command = Command(args=args, env=env, inherit_env=True, stderr=lines.append)
    with trio.fail_after(DEADLINE):
        async with connect(command) as client:
            await client.call_tool("price", {"item": "bread"})
            await client.call_tool("price", {"item": "gold"})
            with pytest.raises(MCPError):
                await client.call_tool("prize")
    return lines


async def test_each_request_over_stdio_has_a_line(shop: Path) -> None:
    lines = [line for line in await call_over_stdio(shop) if "mcptrio.requests" in line]
    calls = [line.partition("request: ")[2] for line in lines if "tools/call" in line]

    assert [call.split(" ms=")[0] for call in calls] == [
        "method=tools/call name=price outcome=result",
        "method=tools/call name=price outcome=tool_error",
        "method=tools/call outcome=error",
    ]
    assert "channel=stdio session=1" in calls[0]
    assert "code=-32602" in calls[2]


def test_each_request_over_http_has_a_line(shop: Path) -> None:
    async def call(url: str) -> None:
        with trio.fail_after(DEADLINE):
            for revision in ("2025-11-25", "2026-07-28"):
                async with connect(url, revision=revision) as client:
                    await client.call_tool("price", {"item": "bread"})

    words = ["--http", "--port", "0", "--plugin", str(shop), "--log-format", "json"]
    with serving(*words, cwd=shop.parent) as server:
        url = server.until(r"serving (http://[^\s\"]+)")[1]
        trio.run(call, url)
        server.signal(signal.SIGTERM)
        server.end()
        found = [json.loads(line) for line in server.stderr.splitlines() if line.startswith("{")]

    calls = [line for line in found if line.get("method") == "tools/call"]
    assert [(line["logger"], line["event"], line["name"], line["outcome"]) for line in calls] == [
        ("mcptrio.requests", "request", "price", "result")
    ] * 2
    assert [line["event"] for line in found if line.get("event") == "session ended"] == ["session ended"]


async def test_lines_of_a_request_have_its_trace_and_session(shop: Path) -> None:
    config = shop.with_name("mcptrio.toml")
    with collecting() as collector:
        config.write_text(f"[log]\nlevels = {{ shop = 'debug' }}\n[telemetry]\nendpoint = '{collector.url}'\n")
        words = ("--log-format", "json", "--config", str(config))
        found = [json.loads(line) for line in await call_over_stdio(shop, *words) if line.startswith("{")]
        traces = [span.trace_id.hex() for _, span in collector.spans if span.name == "tools/call price"]

    own = [line for line in found if line["logger"] == "shop"]
    assert [line["message"] for line in own] == ["asked for bread", "asked for gold"]
    ended = [line for line in found if line.get("name") == "price"]
    assert [line["trace_id"] for line in own] == [line["trace_id"] for line in ended] == traces
    assert {line["session"] for line in own + ended} == {1}


async def test_lines_can_be_switched_off(shop: Path) -> None:
    config = shop.with_name("mcptrio.toml")
    config.write_text("[log]\nlevels = { 'mcptrio.requests' = 'warning' }\n")

    assert not [line for line in await call_over_stdio(shop, "--config", str(config)) if "mcptrio.requests" in line]


@pytest.mark.parametrize("environ", [{"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}])
def test_level_is_coloured_on_a_terminal(shop: Path, environ: dict[str, str]) -> None:
    shop.write_text("import logging\nlogging.getLogger('shop').warning('low')\n" + PLUGIN)
    ours, theirs = pty.openpty()
    args = [sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(shop)]
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | environ
    subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs, env=env, timeout=DEADLINE)
    os.close(theirs)
    output = os.read(ours, 65536)
    os.close(ours)

    assert (b"\x1b[33mWARNING\x1b[0m" in output) == ("NO_COLOR" not in environ)


def test_name_of_a_client_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    values: dict[str, Any] = {"session": 1, "channel": "http", "id": 1, "method": "tools/call", "label": "x\nINFO y=1"}
    values |= {"plugin": None, "revision": "2026-07-28", "client": None, "principal": "a outcome=result"}
    values |= {"seconds": 0.1, "waited": 0.0, "outcome": "error", "code": 1, "message": None}
    with caplog.at_level(logging.INFO, "mcptrio.requests"):
        RequestLog().request_ended(RequestEnded(**values))

    [line] = caplog.messages
    assert line == (
        'request: method=tools/call name="x\\nINFO y=1" outcome=error ms=100.0 code=1 channel=http session=1'
        ' principal="a outcome=result"'
    )
