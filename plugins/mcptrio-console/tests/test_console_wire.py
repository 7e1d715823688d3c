"""The page that records one session: its start and end, its messages, and the file."""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mcptrio import Client, connect
from mcptrio.recording import session_recording
from mcptrio.recording.transcript import read_transcript
from mcptrio.types import Implementation

from .conftest import Site, opened

SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


@asynccontextmanager
async def recorded_client(site: Site, name: str = "Ada") -> AsyncIterator[tuple[Client, str]]:
    """A client with a session, and its number."""
    async with connect(site.server, info=Implementation(name=name, version="1")) as client:
        number = max(each.number for each in site.server.status.sessions)
        yield client, str(number)


async def page(site: Site, path: str = "wire", *, until: str = "") -> str:
    """Return a page, once it has a text: a thread redacts the messages."""
    with trio.fail_after(20):
        while True:
            text = html.unescape((await site.get(path)).text)
            if until in text:
                return " ".join(re.sub(r"<[^>]+>", " ", text).split())
            await trio.sleep(0.05)


async def test_session_is_recorded_read_and_downloaded(tmp_path: trio.Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with opened() as site:
        await site.enter()
        assert "Nothing was recorded yet." in await page(site)
        async with recorded_client(site) as (client, number):
            assert f'name="session" value="{number}"' in (await site.get("sessions")).text
            result = await site.note("record", session=number, back="wire")
            assert result == f"Session {number} is recorded from now on."
            await client.call_tool("draw", {"size": "small", "note": f"<b>{SECRET}"})

            text = await page(site, until="2 messages")
            assert f"Session {number} is being recorded" in text
            assert "from the client tools/call draw" in text
            assert "to the client tools/call draw" in text
            assert await site.note("stop", back="wire") == f"The recording has stopped: Session {number}."
            await client.call_tool("draw", {"size": "large"})

        assert "was recorded until it was stopped 2 messages" in (await page(site)).replace(
            "Delete the recording Download the recording ", ""
        )
        message = await page(site, "message?number=1")
        assert '"note": " [redacted]' in message.replace("<b>", " ")
        assert "Next" in message
        assert "Previous" not in message
        answer = await site.get("recording.jsonl")
        assert answer.headers["content-disposition"] == 'attachment; filename="recording.jsonl"'
        assert SECRET not in answer.text
        path = tmp_path / "recording.jsonl"
        path.write_bytes(answer.content)
        assert [entry.to_server for entry in read_transcript(path).entries] == [True, False]
        assert await site.note("discard", back="wire") == "The recording was deleted."
        assert (await site.get("recording.jsonl")).status_code == 404
    assert f"record (by the link, from 127.0.0.1): Session {number} is recorded from now on." in caplog.text
    assert f"download (by the link, from 127.0.0.1): Session {number}" in caplog.text


async def test_recording_says_why_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_recording, "MAX_MESSAGES", 3)
    async with opened() as site:
        await site.enter()
        async with recorded_client(site) as (client, number):
            await site.note("record", session=number)
            for _ in range(2):
                await client.call_tool("draw", {"size": "small"})
            assert "3 messages" in await page(site, until="was recorded until the recording was full")
            await site.note("record", session=number)
            assert "is being recorded" in await page(site)
        assert "0 messages" in await page(site, until="was recorded until the session ended")
        assert await site.note("stop") == "No recording runs."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"session": "999999"}, "Session 999999 has already ended."),
        ({"session": "x"}, "Nothing is recorded: enter the number of a session, or the name of a client."),
        ({"session": "9" * 30, "client": ""}, "Nothing is recorded: enter the number"),
        ({"client": "<script>"}, "The requests without a session of &lt;script&gt; are recorded from now on."),
    ],
)
async def test_recording_of_a_missing_session_is_reported(fields: dict[str, str], message: str) -> None:
    async with opened() as site:
        await site.enter()

        assert (await site.note("record", **fields)).startswith(message)


async def test_failed_start_leaves_the_recording_that_runs() -> None:
    async with opened() as site:
        await site.enter()
        async with recorded_client(site) as (_, number):
            await site.note("record", session=number)
            await site.note("record", session="999999")

            assert "is being recorded" in await page(site)


@pytest.mark.parametrize("query", ["", "?number=0", "?number=x", "?number=2", f"?number={'9' * 50}"])
async def test_message_that_does_not_exist_is_not_found(query: str) -> None:
    async with opened() as site:
        await site.enter()

        assert (await site.get(f"message{query}")).status_code == 404


async def test_read_only_console_records_nothing() -> None:
    async with opened(read_only=True) as site:
        await site.enter()
        async with recorded_client(site) as (_, number):
            assert "so it records nothing" in await page(site)
            assert "actions/record" not in (await site.get("sessions")).text
            assert (await site.act("record", session=number)).status_code == 403
            assert (await site.get("recording.jsonl")).status_code == 404


async def test_recording_needs_a_session_of_the_browser() -> None:
    async with opened() as site:
        for path in ("wire", "message?number=1", "recording.jsonl"):
            assert (await site.get(path)).status_code == 401


async def test_long_recording_is_paged() -> None:
    async with opened() as site:
        await site.enter()
        async with recorded_client(site) as (client, number):
            await site.note("record", session=number)
            for each in range(60):
                await client.call_tool("draw", {"size": "small", "note": f"number {each}"})
            text = await page(site, until="120 messages")
            assert "Page 1 of 3" in text
            lines = (await site.get("recording.jsonl")).text.splitlines()

    assert len(lines) == 121
    assert json.loads(lines[0])["side"] == "server"
