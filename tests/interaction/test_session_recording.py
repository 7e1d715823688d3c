"""A session of a running server is recorded in memory, over each transport."""

from __future__ import annotations

import json

import pytest
import trio

from mcptrio import Context, Server, ToolError, connect, tool
from mcptrio.recording import session_recording
from mcptrio.serving import SessionRecording
from mcptrio.types import Implementation
from tests.interaction.applies import HANDSHAKE, only, real_time
from tests.interaction.serving import Serve

THREADS = "a mock clock does not wait for threads"


@tool
async def enter(ctx: Context, password: str) -> str:
    """Enter, in two steps."""
    await ctx.report_progress(1, 2)
    return f"entered with {len(password)} characters"


@tool
async def fail() -> str:
    """Fail."""
    raise ToolError("no luck")


def shown(recording: SessionRecording) -> list[tuple[str, str | None, str]]:
    return [("->" if each.to_server else "<-", each.method, each.outcome) for each in recording.messages]


@real_time(because=THREADS)
async def test_session_is_recorded_from_now_until_the_end_of_the_block(serve: Serve) -> None:
    peer = await serve(enter)
    await peer.call("enter", {"password": "before"})
    numbers = [each.number for each in serve.server.status.sessions]
    wanted = {"number": numbers[0]} if numbers else {"client": "raw"}

    async with serve.server.record_session(**wanted) as recording:
        await peer.call("enter", {"password": "open-sesame"}, meta={"progressToken": "p"})
    await peer.call("enter", {"password": "afterwards"})

    assert shown(recording) == [
        ("->", "tools/call", ""),
        ("<-", "notifications/progress", ""),
        ("<-", "tools/call", "ok"),
    ]
    first, _, last = recording.messages
    assert (first.target, last.target) == ("enter", "enter")
    assert first.message["params"]["arguments"] == {"password": "[redacted]"}
    assert last.seconds is not None
    header, *lines = [json.loads(line) for line in recording.lines]
    assert (header["mcptrio_recording"], header["side"], len(lines)) == (1, "server", 3)
    assert recording.size == sum(len(line) for line in recording.lines)
    assert "sesame" not in b"".join(recording.lines).decode()
    assert not recording.is_full


@real_time(because=THREADS)
async def test_request_that_was_in_flight_is_recorded_to_its_end(serve: Serve) -> None:
    go = trio.Event()

    @tool
    async def wait(ctx: Context) -> str:
        """Wait."""
        await ctx.report_progress(1, 2)
        await go.wait()
        await ctx.report_progress(2, 2)
        return "done"

    peer = await serve(wait)
    call = await peer.start_call("wait", meta={"progressToken": "p"})
    await peer.until("notifications/progress")
    [session] = [each for each in serve.server.status.sessions if each.requests]
    wanted = {"client": "raw"} if session.name == "http" else {"number": session.number}

    async with serve.server.record_session(**wanted) as recording:
        go.set()
        await call.result()

    assert shown(recording) == [("<-", "notifications/progress", ""), ("<-", None, "ok")]


@only(revisions=HANDSHAKE, transports=("memory", "http"), because="the others end with their transport's close")
async def test_recording_ends_with_its_session(serve: Serve) -> None:
    await serve(enter)
    (session,) = serve.server.status.sessions

    async with serve.server.record_session(session.number) as recording:
        serve.server.end_session(session.number, "for a test")
        with trio.fail_after(5):
            await recording.wait_ended()

    assert recording.has_session_ended


async def test_other_clients_are_not_recorded() -> None:
    server = Server("shop")
    server.add_tool(enter)
    async with server.open(), connect(server, info=Implementation(name="other", version="1")) as other:
        async with connect(server) as client:
            number = max(each.number for each in server.status.sessions)
            async with server.record_session(number) as recording, server.record_session(client="other") as none:
                await other.call_tool("enter", {"password": "x"})
                await client.call_tool("enter", {"password": "y"})

    assert {each.session for each in recording.messages} == {"memory-1"}
    assert [each.target for each in recording.messages if each.method == "tools/call"] == ["enter", "enter"]
    # Its session has a number.
    assert none.messages == ()


async def test_recording_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_recording, "MAX_MESSAGES", 5)
    server = Server("shop")
    server.add_tool(enter)
    async with server.open(), connect(server) as client:
        (session,) = server.status.sessions
        async with server.record_session(session.number) as recording:
            for _ in range(5):
                await client.call_tool("enter", {"password": "x"})
            with trio.fail_after(5):
                await recording.wait_ended()
            assert recording.is_full
        async with server.record_session(session.number) as second:
            assert not second.is_full

    assert len(recording.messages) == 5


async def test_bytes_of_a_recording_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_recording, "MAX_BYTES", 2000)
    server = Server("shop")
    server.add_tool(enter)
    async with server.open(), connect(server) as client:
        (session,) = server.status.sessions
        async with server.record_session(session.number) as recording:
            await client.call_tool("enter", {"password": "x", "other": "y" * 3000})
            await client.call_tool("enter", {"password": "x"})

    # A recording has no gap: it ends with the first message that is too large.
    assert recording.is_full
    assert all("y" * 100 not in line.decode() for line in recording.lines)


async def test_session_that_has_ended_cannot_be_recorded() -> None:
    server = Server("shop")
    async with server.open():
        with pytest.raises(LookupError, match="expected the number of an open session, got 999999999"):
            async with server.record_session(999999999):
                pass


@only(revisions=HANDSHAKE, because="only a session has messages that belong to no request")
@real_time(because=THREADS)
async def test_messages_that_belong_to_no_request_are_recorded(serve: Serve) -> None:
    peer = await serve(enter)
    await peer.open_stream()
    # After that, the server knows that the client is ready.
    await peer.call("enter", {"password": "x"})
    (session,) = serve.server.status.sessions

    async with serve.server.record_session(session.number) as recording:
        serve.server.add_tool(fail)
        await peer.until("notifications/tools/list_changed")

    assert shown(recording) == [("<-", "notifications/tools/list_changed", "")]
