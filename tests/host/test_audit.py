"""Every action is recorded once, without secrets; the file is bounded and private."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import ConnectionClosed, Host, MCPError, RequestTimeout
from mcptrio.abc import MessageChannel
from mcptrio.errors import NotApproved
from mcptrio.host import ApprovalRequest, AuditFile, AuditRecord, HostOptions
from tests.host.scripted import Scripted, plain

__all__: list[str] = []


def record(**changes: Any) -> AuditRecord:
    fields: dict[str, Any] = {
        "at": datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
        "server": "fs",
        "kind": "tool",
        "name": "read",
        "arguments": {"path": "/tmp"},
        "outcome": "ok",
        "detail": None,
        "seconds": 0.25,
        "task_id": None,
    }
    return AuditRecord(**{**fields, **changes})


async def test_each_request_is_recorded() -> None:
    records: list[AuditRecord] = []
    async with Host({"one": plain()}, approve=None, audit=records.append) as host:
        await host.call_tool("one_echo", {"text": "hi"})
        await host.read_resource("one", "text://readme")
        await host.get_prompt("one_greet", {"who": "Ada"})
        await host.complete("prompt", "one_greet", "who", "A")
        await host.tools().all()

    assert [(each.kind, each.name, each.arguments, each.outcome) for each in records] == [
        ("tool", "echo", {"text": "hi"}, "ok"),
        ("resource", "text://readme", None, "ok"),
        ("prompt", "greet", {"who": "Ada"}, "ok"),
        ("completion", "greet", {"who": "A"}, "ok"),
    ]
    assert {each.server for each in records} == {"one"}
    assert all(each.at.tzinfo is UTC and 0 <= each.seconds < 60 for each in records)


async def test_record_contains_the_outcome(autojump_clock: trio.abc.Clock) -> None:
    async def call(server: Scripted, channel: MessageChannel, params: dict[str, Any]) -> Any:
        how = params["arguments"]["text"]
        if how == "refuse":
            return -32000, "no room"
        if how == "fail":
            return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
        if how == "lie":
            return {"content": "nothing of the kind"}
        if how == "hang up":
            await channel.aclose()
        await trio.sleep_forever()
        return None

    async def approve(request: ApprovalRequest) -> bool:
        return request.arguments["text"] != "forbidden"

    records: list[AuditRecord] = []
    async with Host({"one": Scripted({"tools/call": call})}, approve=approve, audit=records.append) as host:
        for how, error in {
            "refuse": MCPError,
            "fail": None,
            "lie": Exception,
            "forbidden": NotApproved,
            "hang": RequestTimeout,
            "hang up": ConnectionClosed,
        }.items():
            if error is None:
                await host.call_tool("one_echo", {"text": how})
            else:
                with pytest.raises(error):
                    await host.call_tool("one_echo", {"text": how}, timeout=5)
        await host.settle()
        with trio.move_on_after(3):
            await host.call_tool("one_echo", {"text": "hang"})

    outcomes = [(each.arguments["text"], each.outcome) for each in records]
    assert outcomes == [
        ("refuse", "error"),
        ("fail", "error"),
        ("lie", "failed"),
        ("forbidden", "not_approved"),
        ("hang", "timeout"),
        ("hang up", "failed"),
        ("hang", "cancelled"),
    ]
    assert records[0].detail == "-32000: no room"
    assert records[4].seconds == pytest.approx(5)


async def test_call_to_an_unreachable_server_is_recorded() -> None:
    records: list[AuditRecord] = []
    options = HostOptions(ready_timeout=0.1)
    async with Host({"bad": ["/nowhere/at/all"]}, approve=None, audit=records.append, options=options) as host:
        with pytest.raises(ConnectionClosed):
            await host.call_tool("bad_echo", {"text": "hi"})

    assert [(each.server, each.name, each.outcome) for each in records] == [("bad", "bad_echo", "failed")]


async def test_recorded_duration_does_not_include_the_approval(autojump_clock: trio.abc.Clock) -> None:
    async def think(request: ApprovalRequest) -> bool:
        await trio.sleep(100)
        return True

    records: list[AuditRecord] = []
    async with Host({"one": plain()}, approve=think, audit=records.append) as host:
        await host.call_tool("one_echo")

    assert records[0].seconds < 1


async def test_secrets_are_redacted() -> None:
    records: list[AuditRecord] = []
    arguments = {"text": "Bearer abcdefgh12345678", "password": "hunter22", "list": [{"api_key": "k1"}]}

    async def call(*_: Any) -> Any:
        return -32000, "wrong token=abcdefgh1234"

    async with Host({"one": Scripted({"tools/call": call})}, approve=None, audit=records.append) as host:
        with pytest.raises(MCPError):
            await host.call_tool("one_echo", arguments)

    written = repr(records)
    assert not [secret for secret in ("abcdefgh", "hunter22", "k1") if secret in written]
    assert "[redacted]" in written


async def test_failing_custom_redaction_hides_the_arguments() -> None:
    def redact(value: Any) -> Any:
        if isinstance(value, dict):
            raise ZeroDivisionError
        return "…"

    records: list[AuditRecord] = []
    async with Host({"one": plain()}, approve=None, audit=records.append, redact=redact) as host:
        await host.call_tool("one_echo", {"text": "hi"})

    assert (records[0].name, records[0].arguments) == ("…", "[redaction failed]")


async def test_failing_audit_callback_does_not_fail_the_call(caplog: pytest.LogCaptureFixture) -> None:
    def fail(record: AuditRecord) -> None:
        raise OSError("disk full")

    async with Host({"one": plain()}, approve=None, audit=fail) as host:
        await host.call_tool("one_echo")

    assert "audit record lost: tool echo of one" in caplog.text


# The file


def test_file_has_a_line_for_each_record(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with AuditFile(path) as audit:
        audit(record())
        audit(record(outcome="error", detail="no\nroom"))
        lines = path.read_text().splitlines()

    assert json.loads(lines[0]) == {
        "at": "2026-01-02T03:04:05.678+00:00",
        "server": "fs",
        "kind": "tool",
        "name": "read",
        "arguments": {"path": "/tmp"},
        "outcome": "ok",
        "detail": None,
        "seconds": 0.25,
        "task_id": None,
    }
    assert json.loads(lines[1])["detail"] == "no\nroom"
    assert len(lines) == 2


def test_existing_file_is_made_private_and_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("{}\n")
    path.chmod(0o644)
    with AuditFile(path) as audit:
        audit(record())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text().splitlines()) == 2


def test_new_file_is_never_readable_by_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with AuditFile(tmp_path / "audit.jsonl"):
            assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_symbolic_link_as_audit_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"audit\.jsonl"):
        AuditFile(tmp_path / "audit.jsonl")


def test_file_size_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with AuditFile(path, max_bytes=65536) as audit:
        for number in range(2000):
            audit(record(name=f"tool{number}"))

    older = path.with_name("audit.jsonl.1")
    names = [json.loads(line)["name"] for file in (older, path) for line in file.read_text().splitlines()]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.jsonl", "audit.jsonl.1"]
    assert all(each.stat().st_size <= 65536 for each in tmp_path.iterdir())
    assert names == [f"tool{number}" for number in range(2000 - len(names), 2000)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_long_record_is_written_without_its_arguments(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with AuditFile(path) as audit:
        audit(record(arguments={"text": "x" * 100_000}, name="n" * 100_000, detail="d" * 100_000))

    [line] = path.read_text().splitlines()
    assert len(line) < 16_384
    assert json.loads(line)["arguments"].startswith("[left out: 30")


def test_closed_file_refuses_records(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl")
    audit.close()
    audit.close()
    with pytest.raises(ValueError, match="closed"):
        audit(record())


def test_too_small_size_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_bytes"):
        AuditFile(tmp_path / "audit.jsonl", max_bytes=10)
