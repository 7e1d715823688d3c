"""Running calls to an official SDK's server: progress, log messages, cancellation, changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from mcptrio import RequestTimeout, connect
from mcptrio.client import Change, Progress
from mcptrio.errors import RequestFailed
from tests.servers.ways import TIMEOUTS, WAIT_TIMEOUT, User, Way, text, text_of, until, ways

__all__: list[str] = []

WITH_STREAMS = [way for way in ways("stdio", "http", "json", "stateless", "sse") if way.has_stream]
# Without a session, a cancellation finds no call; and the Python SDK with JSON responses does not notice that
# the client has left.
CANCELLABLE = [
    way
    for way in ways("stdio", "http", "json", "stateless", "sse")
    if (way.transport != "stateless" or way.is_modern)
    and (way.transport != "json" or way.is_modern == (way.sdk == "typescript"))
]
WITH_CHANGES = [*ways("stdio", "http", "sse"), *ways("json", "stateless", revisions=("2026-07-28",))]


@pytest.mark.parametrize("way", WITH_STREAMS, indirect=True, ids=str)
async def test_progress_of_an_sdk_server_is_received(way: Way, target: Any) -> None:
    received: list[Progress] = []
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision) as client:
        result = await client.call_tool("count", {"to": 3}, progress=received.append)
        assert not result.is_error
        assert received == [
            Progress(each, 3, f"{each} of 3" if way.since("2025-03-26") else None) for each in (1, 2, 3)
        ]

        async with client.start_tool("count", {"to": 3}) as call:
            assert [report.progress async for report in call] == [1, 2, 3]
            assert not (await call.result()).is_error

        # With a session over HTTP, the response ends here, and the client has to reconnect for the rest.
        received.clear()
        assert text_of(await client.call_tool("break_off", progress=received.append)) == "the rest"
        assert received == [Progress(1, 2), Progress(2, 2)]


@pytest.mark.parametrize("way", CANCELLABLE, indirect=True, ids=str)
async def test_cancelled_call_stops_on_the_sdk_server(way: Way, target: Any, tmp_path: Path) -> None:
    left, late = tmp_path / "left", tmp_path / "late"
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision) as client:
        async with client.start_tool("linger", {"file": str(left)}):
            await until(lambda: left.exists() and left.read_text() == "begun\n")
        await until(lambda: left.read_text() == "cancelled\n")

        # Only after the call has begun, which takes longer on a busy machine.
        for seconds in (0.1, 1, 5, 30):
            with pytest.raises(RequestTimeout):
                await client.call_tool("linger", {"file": str(late)}, timeout=seconds)
            if late.exists():
                break
        await until(lambda: late.read_text() == "cancelled\n")

        assert await text(client, "locate", region="Oslo") == "in Oslo"


@pytest.mark.parametrize("way", [*ways("http"), *ways("stdio", revisions=("2025-11-25",))], indirect=True, ids=str)
async def test_client_can_close_during_a_call(way: Way, target: Any, tmp_path: Path) -> None:
    record = tmp_path / "record"
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            async with connect(target, timeouts=TIMEOUTS, revision=way.revision) as client:
                nursery.start_soon(client.call_tool, "linger", {"file": str(record)})
                await until(lambda: record.exists() and record.read_text() == "begun\n")
                nursery.cancel_scope.cancel()
    await until(lambda: record.read_text() == "cancelled\n")


@pytest.mark.parametrize("way", WITH_STREAMS, indirect=True, ids=str)
async def test_log_messages_of_an_sdk_server_are_received(way: Way, target: Any) -> None:
    user = User()
    async with connect(
        target, timeouts=TIMEOUTS, revision=way.revision, handlers=user.handlers(), log_level="warning"
    ) as client:
        assert await text(client, "chat") == "said"

    # The client does not filter by level: in handshake revisions, a server may send any log message.
    heard = [log for log in user.logs if log[0] in ("warning", "error")]
    assert heard == [("warning", {"text": "a warning"}, "chat"), ("error", "an error message", None)]


# The SDK for Python ignores the level of a session, and without a session there is none.
@pytest.mark.parametrize(
    "way",
    [way for way in ways("stdio", "http") if way.is_modern or way.sdk == "typescript"],
    indirect=True,
    ids=str,
)
async def test_changed_log_level_is_applied(way: Way, target: Any) -> None:
    user = User()
    async with connect(
        target, timeouts=TIMEOUTS, revision=way.revision, handlers=user.handlers(), log_level="debug"
    ) as client:
        await text(client, "chat")
        assert [level for level, _, _ in user.logs] == ["debug", "info", "warning", "error"]
        user.logs.clear()
        await client.set_log_level("error")
        await text(client, "chat")
        assert [level for level, _, _ in user.logs] == ["error"]


@pytest.mark.parametrize("way", ways("stdio", "http", "sse"), indirect=True, ids=str)
async def test_concurrent_and_large_calls_return_their_results(way: Way, target: Any) -> None:
    answers: dict[int, str] = {}
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision) as client:

        async def call(number: int) -> None:
            answers[number] = await text(client, "count", to=number)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(call, number)
        assert answers == {number: str(number) for number in range(50)}

        large = "€" * 1_000_000
        if way.sdk == "typescript" and way.transport == "http":
            with pytest.raises(RequestFailed, match="too large") as refused:  # Express takes 100 kB
                await text(client, "refuse", reason=large)
            assert refused.value.status == 413
            large = "€" * 30_000
        assert (await text(client, "refuse", reason=large)).endswith(large)


@pytest.mark.parametrize("way", ways("http", revisions=("2025-11-25",)), indirect=True, ids=str)
async def test_session_lost_by_the_sdk_server_is_replaced(way: Way, target: Any) -> None:
    user = User()
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision, handlers=user.handlers()) as client:
        session = await text(client, "session")
        async with (
            client.subscribe(["memo://today"]) as changes,
            httpx2.AsyncClient(timeout=WAIT_TIMEOUT) as other_client,
        ):
            await other_client.delete(target.url, headers={"mcp-session-id": session})

            assert await text(client, "session") not in (session, "none")
            assert await text(client, "order", message="Which coffee?") == "large, sugar 0"
            with trio.fail_after(WAIT_TIMEOUT):
                assert await changes.__anext__() == Change("resource", "memo://today")
            await text(client, "touch", uri="memo://today")
            with trio.fail_after(WAIT_TIMEOUT):
                assert await changes.__anext__() == Change("resource", "memo://today")


@pytest.mark.parametrize("way", WITH_CHANGES, indirect=True, ids=str)
async def test_changes_of_an_sdk_server_are_notified(way: Way, target: Any) -> None:
    lists = {Change("tools"), Change("prompts"), Change("resources")}
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision) as client:
        assert "extra_tool" not in {tool.name for tool in await client.tools().all()}
        async with client.subscribe(["memo://today"], tools=True, prompts=True, resources=True) as changes:
            await text(client, "touch", uri="memo://monday/cats")
            await text(client, "touch", uri="memo://today")
            with trio.fail_after(WAIT_TIMEOUT):
                assert await changes.__anext__() == Change("resource", "memo://today")

            for tool, is_there in (("extend", True), ("shrink", False)):
                await text(client, tool)
                left = set(lists)
                with trio.fail_after(WAIT_TIMEOUT):
                    while left:
                        left.discard(await changes.__anext__())
                assert ("extra_tool" in {tool.name for tool in await client.tools().all()}) is is_there
                assert ("extra_prompt" in {prompt.name for prompt in await client.prompts().all()}) is is_there

        assert await text(client, "touch", uri="memo://today") == "memo://today"
