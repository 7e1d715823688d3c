"""Faulty servers, as real processes: at most one call fails, and later calls succeed."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest
import trio

import mcptrio
from mcptrio.client import Progress
from mcptrio.errors import RemoteProtocolError, RequestFailed
from mcptrio.types import CallToolResult, TextContent

__all__: list[str] = []

SERVER = Path(__file__).with_name("faulty_server.py")


def faulty(*arguments: str) -> mcptrio.Command:
    return mcptrio.Command(args=(sys.executable, str(SERVER), *arguments))


async def echoes(client: mcptrio.Client, text: str = "still here") -> bool:
    result = await client.call_tool("echo", {"text": text})
    return result.content == (TextContent(text=text),)


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


async def test_server_exit_fails_pending_calls_with_the_exit_code() -> None:
    async with mcptrio.connect(faulty()) as client:
        with pytest.raises(mcptrio.ConnectionClosed, match=r"exit code 7.*out of cheese"):
            await client.call_tool("die")
        with pytest.raises(mcptrio.ConnectionClosed, match="exit code 7"):
            await client.call_tool("echo", {"text": "?"})


async def test_exited_server_is_restarted_if_configured() -> None:
    async with mcptrio.connect(faulty(), restart=True) as client:
        with pytest.raises(mcptrio.ConnectionClosed, match="exit code 7"):
            await client.call_tool("die")

        assert await echoes(client)


async def test_concurrent_calls_fail_when_one_ends_the_server() -> None:
    failed = []

    async def wait(client: mcptrio.Client) -> None:
        with pytest.raises(mcptrio.ConnectionClosed) as caught:
            await client.call_tool("silent")
        failed.append(caught.value)

    async with mcptrio.connect(faulty()) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait, client)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(mcptrio.ConnectionClosed):
                await client.call_tool("die")

    assert len(failed) == 3


async def test_second_response_is_ignored() -> None:
    async with mcptrio.connect(faulty()) as client:
        assert text_of(await client.call_tool("twice")) == "first"
        assert await echoes(client)


async def test_response_with_an_unknown_id_is_ignored() -> None:
    async with mcptrio.connect(faulty()) as client:
        assert text_of(await client.call_tool("wrong_id")) == "right"
        assert await echoes(client)


async def test_response_with_its_id_as_text_is_accepted() -> None:
    async with mcptrio.connect(faulty()) as client:
        assert text_of(await client.call_tool("text_id")) == "told by its text"


async def test_line_of_ten_megabytes_is_received() -> None:
    async with mcptrio.connect(faulty()) as client:
        assert len(text_of(await client.call_tool("large", {"size": 10_000_000}))) == 10_000_000
        assert await echoes(client)


async def test_line_over_the_limit_fails_only_its_call() -> None:
    async with mcptrio.connect(faulty()) as client:
        with pytest.raises(RequestFailed, match="the answer cannot be read: message too long"):
            await client.call_tool("large", {"size": 70_000_000})

        assert await echoes(client)


async def test_unanswered_call_times_out_without_affecting_others(tmp_path: Path) -> None:
    async with mcptrio.connect(faulty()) as client:
        with pytest.raises(mcptrio.RequestTimeout, match=r"tools/call: no answer from .* within 0\.2"):
            await client.call_tool("silent", timeout=0.2)

        assert await echoes(client)


async def test_server_is_notified_of_a_cancelled_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with mcptrio.connect(faulty()) as client:
        async with client.start_tool("silent"):
            assert await echoes(client)  # so the server has received it
        with trio.fail_after(30):
            while not any("cancelled" in message for message in caplog.messages):  # noqa: ASYNC110 - told by the log
                await trio.sleep(0.01)


async def test_flood_of_progress_arrives_in_order_before_the_response() -> None:
    received: list[float] = []

    async def hear(progress: Progress) -> None:
        received.append(progress.progress)
        await trio.lowlevel.checkpoint()

    async with mcptrio.connect(faulty()) as client:
        assert text_of(await client.call_tool("flood", progress=hear)) == "done"
        assert received == sorted(received)
        assert received[-1] == 19_999
        assert await echoes(client)


async def test_closed_stdout_of_the_server_closes_the_connection() -> None:
    async with mcptrio.connect(faulty()) as client:
        with pytest.raises(mcptrio.ConnectionClosed, match="closed"):
            await client.call_tool("close")


async def test_invalid_lines_between_messages_are_ignored() -> None:
    async with mcptrio.connect(faulty()) as client:
        assert text_of(await client.call_tool("rubbish")) == "after it"
        assert await echoes(client)


async def test_incomplete_message_is_ignored() -> None:
    async with mcptrio.connect(faulty()) as client:
        assert text_of(await client.call_tool("broken")) == "the rest"


async def test_invalid_result_fails_only_its_call() -> None:
    async with mcptrio.connect(faulty()) as client:
        with pytest.raises(RemoteProtocolError, match=r"tools/call: expected an array at `content`"):
            await client.call_tool("unfit")

        assert await echoes(client)


async def test_response_that_is_not_an_object_fails_only_its_call() -> None:
    """Its id is readable, so the call fails at once."""
    async with mcptrio.connect(faulty()) as client:
        with pytest.raises(RequestFailed, match="result: expected an object, got"):
            await client.call_tool("no_object")

        assert await echoes(client)


async def test_server_that_does_not_exit_is_killed() -> None:
    with trio.fail_after(60):
        async with mcptrio.connect(faulty("slow-exit")) as client:
            assert await echoes(client)


async def test_missing_command_is_reported() -> None:
    with pytest.raises(mcptrio.ConnectionClosed, match="no-such-program"):
        async with mcptrio.connect(["no-such-program"]):
            pass


async def test_output_of_a_program_that_exits_at_once_is_reported() -> None:
    program = "import sys; sys.exit('no database')"
    with pytest.raises(mcptrio.ConnectionClosed, match=r"exit code 1.*no database"):
        async with mcptrio.connect([sys.executable, "-c", program]):
            pass


async def test_exception_of_the_body_is_raised_unwrapped() -> None:
    async def fail() -> None:
        async with mcptrio.connect(faulty()) as client:
            await echoes(client)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_server_does_not_inherit_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "hunter2")
    program = "import os, sys; sys.exit(os.environ.get('MY_API_KEY', 'nothing') + os.environ.get('GIVEN', ''))"
    with pytest.raises(mcptrio.ConnectionClosed, match="nothingyes"):
        async with mcptrio.connect(mcptrio.Command(args=(sys.executable, "-c", program), env={"GIVEN": "yes"})):
            pass
    assert os.environ["MY_API_KEY"] == "hunter2"
