"""The middlewares that ship: a rate for each caller, and a record of what was done."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import MCPError, Principal, Server, ToolError, tool
from mcptrio.middleware.audit_log import AuditLog, AuditLogConfig
from mcptrio.middleware.rate_limit import RateLimit, RateLimitConfig

__all__: list[str] = []


class Desk:
    @tool
    async def write(self, text: str, password: str = "") -> str:
        return text

    @tool
    async def fail(self) -> str:
        raise ToolError("no paper")

    @tool
    async def wait(self) -> str:
        await trio.sleep_forever()
        return ""


async def test_rate_of_a_caller(autojump_clock: trio.testing.MockClock) -> None:
    limit = RateLimit(RateLimitConfig(per_second=2, burst=2))
    async with Server(plugins=[Desk(), limit]).open() as server, trio.open_nursery() as nursery:
        retries: set[float] = set()

        async def refused(subject: str, calls: int) -> int:
            ours, theirs = mcptrio.memory_channel_pair()
            nursery.start_soon(lambda: server.serve(theirs, principal=Principal(subject=subject)))
            count = 0
            async with mcptrio.connect(ours) as client:
                for _ in range(calls):
                    try:
                        await client.call_tool("write", {"text": "x"})
                    except MCPError as error:
                        count += "too many requests: more than 2 a second" in str(error)
                        retries.add(error.data["retryAfter"])
                await client.ping()
            return count

        assert await refused("one", 4) == 2
        assert await refused("another", 2) == 0
        # Whoever connects again is the same person.
        assert await refused("one", 1) == 1
        await trio.sleep(1)
        assert await refused("one", 2) == 0
        assert retries == {0.5}
        nursery.cancel_scope.cancel()


async def test_rate_of_each_tool_for_everybody(autojump_clock: trio.testing.MockClock) -> None:
    limit = RateLimit(RateLimitConfig(per_second=1, burst=1, by="everybody", each=True))
    async with Server(plugins=[Desk(), limit]).open() as server, mcptrio.connect(server) as client:
        await client.call_tool("write", {"text": "x"})
        assert (await client.call_tool("fail")).is_error
        async with mcptrio.connect(server) as other:
            with pytest.raises(MCPError, match="too many requests"):
                await other.call_tool("write", {"text": "x"})


async def test_record_of_everything_that_was_begun(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(AuditLogConfig(path=path, arguments="redacted"))
    async with Server(plugins=[Desk(), audit]).open() as server, mcptrio.connect(server) as client:
        await client.call_tool("write", {"text": "bearer abcdefghijklmnop", "password": "hunter2"})
        await client.call_tool("fail")
        with pytest.raises(MCPError):
            await client.call_tool("nothing")
        with trio.move_on_after(2):
            await client.call_tool("wait")
        await trio.testing.wait_all_tasks_blocked()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(each["name"], each["outcome"]) for each in records] == [
        ("write", "ok"),
        ("fail", "error"),
        ("nothing", "refused"),
        ("wait", "cancelled"),
    ]
    assert records[0]["arguments"]["password"] == "[redacted]"
    assert "abcdefghijklmnop" not in path.read_text()
    assert records[0]["plugin"] == "Desk"
    assert records[2]["detail"].endswith("no such tool: nothing")
    assert records[3]["seconds"] == pytest.approx(2, abs=0.1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(("kept", "arguments"), [("none", None), ("names", ["password", "text"])])
async def test_arguments_are_kept_as_the_operator_says(
    kept: str, arguments: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="mcptrio.audit")
    audit = AuditLog(AuditLogConfig(arguments=kept))  # type: ignore[arg-type]
    async with Server(plugins=[Desk(), audit]).open() as server, mcptrio.connect(server) as client:
        await client.call_tool("write", {"text": "x", "password": "hunter2"})
    [record] = [json.loads(each.getMessage()) for each in caplog.records if each.name == "mcptrio.audit"]
    assert record["arguments"] == arguments
    assert "hunter2" not in caplog.text


async def test_large_arguments_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(AuditLogConfig(path=path, arguments="redacted"))
    async with Server(plugins=[Desk(), audit]).open() as server, mcptrio.connect(server) as client:
        await client.call_tool("write", {"text": "x" * 100_000})
    assert json.loads(path.read_text())["arguments"].startswith("[left out: ")


def test_they_are_loaded_where_they_have_a_table(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text("from mcptrio import tool\n\n\n@tool\ndef sit() -> str:\n    return 'sat'\n")
    (tmp_path / "mcptrio.toml").write_text(
        '[plugins.audit_log]\npath = "audit.jsonl"\n\n[plugins.rate_limit]\nper_second = 1\nburst = 1\n'
    )
    listed = subprocess.run(
        [sys.executable, "-m", "mcptrio", "plugins", "--plugin", "desk.py", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    plugins = {each["name"]: each for each in json.loads(listed.stdout)}
    assert plugins["audit_log"]["offers"] == {"middleware": ["record"]}
    assert plugins["rate_limit"]["offers"] == {"middleware": ["limit"]}
