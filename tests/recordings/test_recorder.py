"""The contents of a recording, and the secrets that it leaves out."""

from __future__ import annotations

import json
import logging
import resource as limits
import stat
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import ConfigError, Server, connect
from mcptrio.client.handlers import Handlers
from mcptrio.protocol.messages import Notification
from mcptrio.recording import recorder as module
from mcptrio.recording.recorder import Recorder
from mcptrio.recording.transcript import read_transcript
from tests.recordings import garden

__all__: list[str] = []


async def carrots(_form: object) -> dict[str, str]:
    return {"value": "carrots"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def messages(path: Path) -> list[tuple[str, str]]:
    """Return direction and method, or kind of response, of each message."""
    results = []
    for line in lines(path)[1:]:
        message = line["message"]
        results.append((line["dir"], message.get("method") or ("error" if "error" in message else "result")))
    return results


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_client_and_server_record_the_same_messages(tmp_path: Path, revision: str) -> None:
    theirs, ours = tmp_path / "server.jsonl", tmp_path / "client.jsonl"
    server = Server("garden", plugins=[garden], record=theirs)
    async with connect(server, revision=revision, record=ours, handlers=Handlers(elicit=carrots)) as client:
        assert (await client.call_tool("sow", {"bed": "east"})).content[0].text == "carrots in east"  # type: ignore[union-attr]

    header, *entries = lines(theirs)
    assert (header["mcptrio_recording"], header["server"], header["side"]) == (1, "garden", "server")
    assert {entry["session"] for entry in entries} == {"memory-1"}
    assert sorted(entry["t"] for entry in entries) == [entry["t"] for entry in entries]
    assert ("out", "elicitation/create") in messages(theirs) or revision == "2026-07-28"
    turned = {"in": "out", "out": "in"}
    assert sorted((turned[way], what) for way, what in messages(theirs)) == sorted(messages(ours))


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_secrets_are_not_recorded_and_schemas_are(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "x.jsonl"
    async with connect(
        Server(plugins=[garden], record=path), revision=revision, handlers=Handlers(elicit=carrots)
    ) as client:
        tools = {each.name: each async for each in client.tools()}
        result = await client.call_tool("enter", {"password": "open-sesame"})
        await client.call_tool("sow", {"bed": "east"})

    text = path.read_text()
    assert "open-sesame" in result.content[0].text  # type: ignore[union-attr]
    assert "open-sesame" not in text
    assert "third stone" not in text, "redactions of plugins apply"
    assert '"password":"[redacted]"' in text
    assert tools["enter"].input_schema["properties"]["password"]["type"] == "string"
    assert '"password":{"type":"string"}' in text
    states = [line["message"].get("result", {}).get("requestState") for line in lines(path)[1:]]
    assert all(state.startswith("sha256:") for state in states if state)
    assert any(states) == (revision == "2026-07-28")


async def test_file_is_private_and_an_older_recording_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for _ in range(2):
        async with connect(Server(plugins=[garden], record=path)) as client:
            await client.call_tool("water", {"bed": "west"})

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert lines(path)[0]["run"] != lines(tmp_path / "x.jsonl.1")[0]["run"]
    # The older run is no part of the newer one.
    assert len(read_transcript(path).entries) == len(lines(path)) - 1


async def test_file_that_is_too_large_is_continued_in_another(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    recorder = Recorder(path, name="garden", side="server", max_bytes=4000)
    async with recorder.running():
        session = recorder.session("stdio")
        for number in range(30):
            session.received(Notification("grown", {"number": number}))

    older = tmp_path / "x.jsonl.1"
    assert lines(older)[0]["run"] == lines(path)[0]["run"]
    assert path.stat().st_size <= 4000
    found = [entry.params["number"] for entry in read_transcript(path).entries]
    assert found == list(range(30 - len(found), 30)), "the oldest of three parts is gone"


async def test_full_queue_drops_messages_and_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED", 10)
    path = tmp_path / "x.jsonl"
    recorder = Recorder(path, name="garden", side="server")
    async with recorder.running():
        session = recorder.session("stdio")
        # Without a checkpoint, the task that writes cannot run.
        for number in range(25):
            session.received(Notification("grown", {"number": number}))

    transcript = read_transcript(path)
    assert len(transcript.entries) == 10
    assert transcript.dropped == 15


async def test_bytes_of_the_queue_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED_BYTES", 1000)
    path = tmp_path / "x.jsonl"
    recorder = Recorder(path, name="garden", side="server")
    async with recorder.running():
        session = recorder.session("stdio")
        for _ in range(5):
            session.received(Notification("grown", {"leaves": "x" * 2000}))

    assert len(read_transcript(path).entries) == 1, "one large message is accepted alone"
    assert read_transcript(path).dropped == 4


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none/x.jsonl", "record: .*none/x.jsonl cannot be written: No such file or directory"),
        ("notes.txt", "record: .*notes.txt: expected a new file or a recording, got another file"),
        (".", "record: .*: expected a new file or a recording"),
    ],
)
async def test_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "notes.txt").write_text("beans: 3 metres\n")
    with pytest.raises(ConfigError, match=problem):
        async with Server(plugins=[garden], record=tmp_path / name).open():
            pass
    with pytest.raises(ConfigError, match=problem):
        async with connect(Server(plugins=[garden]), record=tmp_path / name):
            pass
    assert (tmp_path / "notes.txt").read_text() == "beans: 3 metres\n"


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Let the file grow by 100 bytes only. The system then refuses to write, as with a full disk."""
    soft, hard = limits.getrlimit(limits.RLIMIT_FSIZE)
    limits.setrlimit(limits.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))
    try:
        yield
    finally:
        limits.setrlimit(limits.RLIMIT_FSIZE, (soft, hard))


async def until_logged(caplog: pytest.LogCaptureFixture) -> None:
    with trio.fail_after(10):
        while not caplog.records:  # noqa: ASYNC110 - a thread logs it, without an event
            await trio.sleep(0.01)


async def test_failing_disk_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.jsonl"
    caplog.set_level(logging.ERROR, logger="mcptrio.recording")
    recorder = Recorder(path, name="garden", side="server")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(recorder.running())
        with full_disk(path):
            session = recorder.session("stdio")
            session.received(Notification("grown", {"leaves": "x" * 200}))
            await until_logged(caplog)
            session.received(Notification("grown", {"leaves": "x" * 200}))
            # Writes the rest.
            await stack.aclose()

    problem = "messages are not recorded: [Errno 27] File too large"
    assert [record.message for record in caplog.records] == [f"{path}: {problem}"]


async def test_recording_continues_when_the_disk_has_room_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.jsonl"
    caplog.set_level(logging.ERROR, logger="mcptrio.recording")
    recorder = Recorder(path, name="garden", side="server")
    async with recorder.running():
        session = recorder.session("stdio")
        with full_disk(path):
            for _ in range(3):
                session.received(Notification("grown", {"leaves": "x" * 200}))
            await until_logged(caplog)
        session.received(Notification("grown", {"leaves": "few"}))

    transcript = read_transcript(path)
    assert [entry.params["leaves"] for entry in transcript.entries] == ["few"]
    assert transcript.dropped == 3
    assert transcript.unreadable == 1, "the line that was cut short"
