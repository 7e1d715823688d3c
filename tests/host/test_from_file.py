"""A host with the servers of an ``mcp.json``, which it starts as other host applications do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import ConfigError, ConnectionClosed, Host
from mcptrio.connecting.mcp_json import Input
from mcptrio.host import HostOptions
from tests.host.scripted import text_of

__all__: list[str] = []

PLUGIN = """
import os
from mcptrio import tool

@tool
def who() -> str:
    return f"{os.environ['WHO']} in {os.path.basename(os.getcwd())}"
"""


def entry(**more: Any) -> dict[str, Any]:
    args = ["-m", "mcptrio", "serve", "--stdio", "--plugin", "who.py"]
    return {"command": sys.executable, "args": args, "cwd": "${workspaceFolder}", **more}


async def test_enabled_servers_of_a_file_are_started(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[Input] = []

    def ask(input: Input) -> str:
        asked.append(input)
        return "Ada"

    (tmp_path / "who.py").write_text(PLUGIN)
    (tmp_path / ".vscode").mkdir()
    file = tmp_path / ".vscode" / "mcp.json"
    servers = {
        "one": entry(env={"WHO": "${input:who}"}),
        "two": entry(env={"WHO": "Bob"}),
        "off": entry(disabled=True),
        "wrong": entry(env={"WHO": "${env:THERE_IS_NO_SUCH_VARIABLE}"}),
    }
    file.write_text(json.dumps({"servers": servers, "inputs": [{"id": "who", "type": "promptString"}]}))
    with trio.fail_after(120):
        async with Host.from_mcp_json(file, approve=None, ask=ask, options=HostOptions(ready_timeout=60)) as host:
            assert text_of(await host.call_tool("one_who")) == f"Ada in {tmp_path.name}"
            assert text_of(await host.call_tool("two_who")) == f"Bob in {tmp_path.name}"
            status = host.status
            with pytest.raises(ConnectionClosed, match="THERE_IS_NO_SUCH_VARIABLE"):
                await host.call_tool("wrong_who")
            tools = await host.tools().all()

    assert list(status) == ["one", "two", "wrong"]
    assert (status["wrong"].state, status["wrong"].has_ended) == ("failed", True)
    assert "servers.wrong.env.WHO" in (status["wrong"].reason or "")
    assert "servers.wrong.env.WHO" in caplog.text
    assert list(tools.missing) == ["wrong"]
    assert len(asked) == 1


async def test_malformed_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": ')
    with pytest.raises(ConfigError, match=r"mcp\.json:1: expected a value, got the end of the file"):
        Host.from_mcp_json(file, approve=None)
