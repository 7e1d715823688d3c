"""The included middleware: the rate limit and the audit log."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import ConfigError, MCPError, PluginSetup, Server, ToolError, hookimpl, tool
from mcptrio.abc import Principal
from mcptrio.plugins.middleware.audit_log import AuditLog, AuditLogConfig
from mcptrio.plugins.middleware.rate_limit import RateLimit, RateLimitConfig, RateLimitOverride
from mcptrio.plugins.settings import PluginTables
from mcptrio.serving import RunningServer, memory_channel_pair

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


async def test_rate_is_limited_per_caller(autojump_clock: trio.testing.MockClock) -> None:
    limit = RateLimit(RateLimitConfig(per_second=2, burst=2))
    server = Server(plugins=[Desk(), limit])
    async with server.open() as running, trio.open_nursery() as nursery:
        retries: set[float] = set()

        async def refused(subject: str, calls: int) -> int:
            ours, theirs = memory_channel_pair()
            nursery.start_soon(lambda: running.serve(theirs, principal=Principal(subject=subject)))
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
        # A new connection of the same client has the same principal.
        assert await refused("one", 1) == 1
        await trio.sleep(1)
        assert await refused("one", 2) == 0
        assert retries == {0.5}
        nursery.cancel_scope.cancel()


async def test_rate_can_be_limited_per_tool_for_all_callers(autojump_clock: trio.testing.MockClock) -> None:
    limit = RateLimit(RateLimitConfig(per_second=1, burst=1, by="everybody", each=True))
    server = Server(plugins=[Desk(), limit])
    async with server.open(), mcptrio.connect(server) as client:
        await client.call_tool("write", {"text": "x"})
        assert (await client.call_tool("fail")).is_error
        async with mcptrio.connect(server) as other:
            with pytest.raises(MCPError, match="too many requests"):
                await other.call_tool("write", {"text": "x"})


async def calls(
    running: RunningServer, count: int, principal: Principal | None = None, name: str = "write"
) -> list[MCPError]:
    """Call the tool ``count`` times in a separate session. Return the refused calls."""
    refused: list[MCPError] = []
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: running.serve(theirs, principal=principal))
        async with mcptrio.connect(ours) as client:
            for _ in range(count):
                try:
                    await client.call_tool(name, {"text": "x"} if name == "write" else {})
                except MCPError as error:
                    refused.append(error)
        nursery.cancel_scope.cancel()
    return refused


async def test_quotas_are_enforced_per_caller(autojump_clock: trio.testing.MockClock) -> None:
    limit = RateLimit(RateLimitConfig(per_second=1000, burst=1000, quotas={"hour": 3, "day": 5}))
    one, other = Principal(subject="one", issuer="a"), Principal(subject="one", issuer="b")
    server = Server(plugins=[Desk(), limit])
    async with server.open() as running:
        assert not await calls(running, 3, one)
        assert not await calls(running, 3, other), "another issuer's is another person"
        await trio.sleep(600)
        [refused] = await calls(running, 1, one)
        assert refused.data["retryAfter"] == pytest.approx(3000, abs=1)
        begins = datetime.fromisoformat(refused.message.partition("begins at ")[2])
        assert "quota of 3 requests per hour exceeded" in refused.message
        assert (begins - datetime.now(UTC)).total_seconds() == pytest.approx(3000, abs=60)

        await trio.sleep(3001)
        refused_by_day = await calls(running, 3, one)
        assert len(refused_by_day) == 1, "what was refused was not counted"
        assert "per day" in refused_by_day[0].message
        assert refused_by_day[0].data["retryAfter"] == pytest.approx(86_400 - 3601, abs=1)
        await trio.sleep(86_400)
        assert not await calls(running, 3, one)


async def test_overrides_apply_to_their_subjects_and_clients(autojump_clock: trio.testing.MockClock) -> None:
    config = RateLimitConfig(
        per_second=1,
        burst=1,
        quotas={"day": 2},
        subjects={"chief": RateLimitOverride(per_second=100, burst=100, quotas={})},
        clients={"import": RateLimitOverride(burst=3, quotas={"day": 3})},
    )
    server = Server(plugins=[Desk(), RateLimit(config)])
    async with server.open() as running:
        assert not await calls(running, 50, Principal(subject="chief", client_id="import"))
        assert len(await calls(running, 5, Principal(subject="someone", client_id="import"))) == 2
        assert len(await calls(running, 5, Principal(subject="someone", client_id="other"))) == 4
        await trio.sleep(10)
        assert len(await calls(running, 5, Principal(subject="someone"))) == 4
        await trio.sleep(10)
        [refused] = await calls(running, 1, Principal(subject="someone"))
        assert "quota of 2 requests per day" in refused.message


async def test_users_of_one_client_share_its_limit(autojump_clock: trio.testing.MockClock) -> None:
    limit = RateLimit(RateLimitConfig(per_second=0.001, burst=2, by="client"))
    server = Server(plugins=[Desk(), limit])
    async with server.open() as running:
        assert not await calls(running, 1, Principal(subject="one", client_id="app"))
        assert not await calls(running, 1, Principal(subject="two", client_id="app"))
        assert len(await calls(running, 1, Principal(subject="three", client_id="app"))) == 1
        assert not await calls(running, 1, Principal(subject="one", client_id="another"))


async def test_weighted_tool_counts_as_several_requests(autojump_clock: trio.testing.MockClock) -> None:
    config = RateLimitConfig(per_second=1, burst=10, quotas={"day": 25}, costs={"f*": 4, "fail": 9, "write": 30})
    server = Server(plugins=[Desk(), RateLimit(config)])
    async with server.open() as running:
        someone = Principal(subject="someone")
        [refused] = await calls(running, 2, someone, "fail")
        assert refused.data["retryAfter"] == pytest.approx(8, abs=0.1)
        await trio.sleep(9)
        assert not await calls(running, 1, someone, "fail")
        await trio.sleep(9)
        [refused] = await calls(running, 1, someone, "fail")
        assert "quota of 25 requests per day" in refused.message
        [refused] = await calls(running, 1, someone, "write")
        assert refused.message.startswith("the call counts as 30 requests")


async def test_invented_tool_names_get_no_limits_of_their_own(autojump_clock: trio.testing.MockClock) -> None:
    limit = RateLimit(RateLimitConfig(per_second=0.001, burst=1, each=True))
    server = Server(plugins=[Desk(), limit])
    async with server.open(), mcptrio.connect(server) as client:
        await client.call_tool("write", {"text": "x"})
        messages: list[str] = []
        for number in range(300):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(f"made up {number}", {})
            messages.append(refused.value.message)
        assert sum("no such tool" in each for each in messages) == 256, "255 more accounts, and one for all other tools"
        with pytest.raises(MCPError, match="too many requests"):
            await client.call_tool("write", {"text": "x"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quotas": {"month": 1}}, "quotas: expected minute, hour, day, week, got 'month'"),
        ({"quotas": {"day": 0}}, "quotas: expected at least 1 a day, got 0"),
        ({"costs": {"*": 0}}, "costs: expected at least 1"),
        ({"subjects": {"one": {"quotas": {"month": 1}}}}, "expected minute, hour, day, week"),
        ({"clients": {"one": {"bursts": 1}}}, "there is no setting `bursts`"),
    ],
)
def test_invalid_limits_are_reported(settings: dict[str, Any], message: str) -> None:
    tables = PluginTables(tables={"rate_limit": settings})
    with pytest.raises(ConfigError, match=message):
        tables.of("rate_limit", RateLimitConfig)


def test_overrides_are_read_from_the_configuration() -> None:
    table = {"quotas": {"day": 9}, "subjects": {"one": {"burst": 2}}, "clients": {"two": {"quotas": {}}}}
    read = PluginTables(tables={"rate_limit": table}).of("rate_limit", RateLimitConfig)
    assert read.subjects["one"] == RateLimitOverride(burst=2)
    assert read.clients["two"].quotas == {}


async def test_audit_log_records_every_started_request(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(AuditLogConfig(path=path, arguments="redacted"))
    server = Server(plugins=[Desk(), audit])
    async with server.open(), mcptrio.connect(server) as client:
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
    assert records[2]["detail"].endswith("no such tool: `nothing`")
    assert records[3]["seconds"] == pytest.approx(2, abs=0.1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(("kept", "arguments"), [("none", None), ("names", ["password", "text"])])
async def test_arguments_are_recorded_as_configured(
    kept: str, arguments: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="mcptrio.audit")
    audit = AuditLog(AuditLogConfig(arguments=kept))  # type: ignore[arg-type]
    server = Server(plugins=[Desk(), audit])
    async with server.open(), mcptrio.connect(server) as client:
        await client.call_tool("write", {"text": "x", "password": "hunter2"})
    [record] = [json.loads(each.getMessage()) for each in caplog.records if each.name == "mcptrio.audit"]
    assert record["arguments"] == arguments
    assert "hunter2" not in caplog.text


SECRETS = ("hunter-two", "abc-123-def", "1234567", "s3cr3t-in-list", "CUST-99-0001", "pin-code")


async def test_secrets_in_arguments_are_not_recorded(tmp_path: Path) -> None:
    class Vault:
        @tool(input_schema={"type": "object"})
        async def open(self, anything: dict[str, Any]) -> str:
            raise MCPError(f"not with {anything['login']['password']!r:.12}… of {anything['of']}")

    config = AuditLogConfig(
        path=tmp_path / "audit.jsonl",
        arguments="redacted",
        secret=("*password*", "api_key", "login.pin"),
        secret_values=("CUST-[0-9-]+",),
    )
    server = Server(plugins=[Vault(), AuditLog(config)])
    async with server.open(), mcptrio.connect(server) as client:
        with pytest.raises(MCPError):
            await client.call_tool(
                "open",
                {
                    "login": {"Password": "x", "password": "hunter-two-and-more", "pin": "pin-code", "user": "me"},
                    "several": [{"deep": [{"api_key": {"value": ["abc-123-def", 1234567]}, "pin": "0000"}]}],
                    "passwords": ["s3cr3t-in-list"],
                    "of": "customer CUST-99-0001",
                },
            )
    [record] = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert record["arguments"] == {
        "login": {"Password": "[redacted]", "password": "[redacted]", "pin": "[redacted]", "user": "me"},
        "several": [{"deep": [{"api_key": "[redacted]", "pin": "0000"}]}],
        "passwords": "[redacted]",
        "of": "customer [redacted]",
    }
    assert record["detail"].endswith("not with '[redacted]… of customer [redacted]")
    assert not [each for each in SECRETS if each in (tmp_path / "audit.jsonl").read_text()]


async def test_secrets_registered_by_a_plugin_are_not_recorded(tmp_path: Path) -> None:
    class Hush:
        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.add_redaction(lambda text: text.replace("falcon", "[bird]"))

    audit = AuditLog(AuditLogConfig(path=tmp_path / "audit.jsonl", arguments="redacted"))
    server = Server(plugins=[Desk(), Hush(), audit])
    async with server.open(), mcptrio.connect(server) as client:
        await client.call_tool("write", {"text": "the falcon flies"})
    [record] = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert record["arguments"]["text"] == "the [bird] flies"


async def test_record_contains_the_caller(tmp_path: Path) -> None:
    audit = AuditLog(AuditLogConfig(path=tmp_path / "audit.jsonl"))
    principal = Principal(
        subject="me", issuer="https://id.example.com", client_id="app", scopes=frozenset("ba"), claims={"secret": "zzz"}
    )
    server = Server(plugins=[Desk(), audit])
    async with server.open() as running:
        await calls(running, 1, principal)
        await calls(running, 1, principal)
        await calls(running, 1)
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    first, second, anonymous = (json.loads(line) for line in lines)
    assert [first[name] for name in ("principal", "issuer", "client_id", "scopes")] == [
        "me",
        "https://id.example.com",
        "app",
        ["a", "b"],
    ]
    assert first["caller"] == second["caller"] != anonymous["caller"]
    assert anonymous["principal"] is None
    assert "zzz" not in lines[0]


async def test_recorded_client_values_are_bounded(tmp_path: Path) -> None:
    audit = AuditLog(AuditLogConfig(path=tmp_path / "audit.jsonl"))
    server = Server(plugins=[Desk(), audit])
    async with server.open(), mcptrio.connect(server) as client:
        with pytest.raises(MCPError):
            await client.call_tool("n" * 100_000, {"a" * 100_000: 1})
        with pytest.raises(MCPError):
            await client.call_tool("nothing at https://me:hunter2hunter2@example.com", {})
    first, second = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert len(first) < 4000
    assert "hunter2hunter2" not in second


def test_invalid_pattern_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"secret_values: expected a regular expression, got '\['"):
        PluginTables(tables={"audit_log": {"secret_values": ["["]}}).of("audit_log", AuditLogConfig)


async def test_large_arguments_are_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(AuditLogConfig(path=path, arguments="redacted"))
    server = Server(plugins=[Desk(), audit])
    async with server.open(), mcptrio.connect(server) as client:
        await client.call_tool("write", {"text": "x" * 100_000})
    assert json.loads(path.read_text())["arguments"].startswith("[left out: ")


def test_shipped_middleware_is_loaded_if_it_has_a_table(tmp_path: Path) -> None:
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
        timeout=120,
        check=True,
    )
    plugins = {each["name"]: each for each in json.loads(listed.stdout)["plugins"]}
    assert plugins["audit_log"]["offers"] == {"middleware": ["record"]}
    assert plugins["rate_limit"]["offers"] == {"middleware": ["limit"]}
