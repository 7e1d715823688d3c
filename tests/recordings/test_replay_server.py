"""A recorded server answers as it did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcptrio import MCPError, Server, connect
from mcptrio.client.calls import Progress
from mcptrio.client.handlers import Handlers
from mcptrio.protocol.messages import Incoming, Notification, Request, Response
from mcptrio.recording.replay_server import ReplayServer
from mcptrio.recording.transcript import read_transcript
from mcptrio.testing import replayed
from mcptrio.transports.memory import memory_channel_pair
from tests.recordings import garden

__all__: list[str] = []

RECORDING = {"mcptrio_recording": 1, "mcptrio": "0", "server": "garden", "side": "server", "run": "a", "at": "2026"}


async def carrots(_form: object) -> dict[str, str]:
    return {"value": "carrots"}


def written(path: Path, *entries: tuple[float, str, dict[str, Any]]) -> Path:
    """Write a recording of a server by hand."""
    lines = [RECORDING]
    lines += [
        {"t": t, "at": "", "dir": way, "session": "s", "principal": None, "via": "stdio", "message": message}
        for t, way, message in entries
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def replay(path: Path, speed: float = 0.0) -> ReplayServer:
    return ReplayServer("garden", read_transcript(path).entries, speed=speed)


async def talk(server: ReplayServer, *messages: Request | Notification, wanted: int) -> Sequence[Incoming]:
    """Send messages, and return the first ones of the server."""
    ours, theirs = memory_channel_pair()
    got: list[Incoming] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, theirs)
        await ours.send(messages)
        while len(got) < wanted:
            got += await ours.receive()
        await ours.aclose()
    return got


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_replayed_server_answers_as_the_recorded_one(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "x.jsonl"
    handlers = Handlers(elicit=carrots)

    async def use(target: Any) -> list[Any]:
        steps: list[Progress] = []
        async with connect(target, revision=revision, handlers=handlers) as client:
            tools = [tool async for tool in client.tools()]
            result = await client.call_tool("sow", {"bed": "east"}, progress=steps.append)
            beds = await client.read_resource("garden://beds")
            return [tools, result, beds, [step.message for step in steps]]

    live = await use(Server("garden", plugins=[garden], record=path))
    async with replayed(path) as channel:
        again = await use(channel)

    assert again == live


async def test_equal_requests_get_the_recorded_answers_in_order(tmp_path: Path) -> None:
    entries = []
    for number in range(2):
        entries += [
            (number, "in", {"id": number, "method": "next", "params": {"_meta": {"x": number}}}),
            (number, "out", {"id": number, "result": {"value": number}}),
        ]
    server = replay(written(tmp_path / "x.jsonl", *entries))
    got = await talk(server, *(Request(f"a{n}", "next", {"_meta": {"y": 1}}) for n in range(3)), wanted=3)

    answers = {each.id: each.result for each in got if isinstance(each, Response)}
    assert answers == {"a0": {"value": 0}, "a1": {"value": 1}, "a2": {"value": 1}}


async def test_unknown_request_is_refused_with_the_nearest_recorded_one(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    async with connect(Server("garden", plugins=[garden], record=path)) as client:
        await client.call_tool("water", {"bed": "west", "litres": 3})
    async with replayed(path) as channel, connect(channel) as client:
        with pytest.raises(MCPError) as other:
            await client.request("tools/call", {"name": "water", "arguments": {"bed": "west", "litres": 4}})
        with pytest.raises(MCPError) as unknown:
            await client.request("prompts/get", {"name": "plan"})

    assert str(other.value).endswith('the nearest has {"arguments":{"bed":"west","litres":3},"name":"water"}'), (
        other.value
    )
    assert "the recording has no request prompts/get; it has: server/discover, tools/call" in str(unknown.value)


async def test_secrets_of_a_live_request_match_the_redacted_ones(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    async with connect(Server("garden", plugins=[garden], record=path)) as client:
        await client.call_tool("enter", {"password": "open-sesame"})
    async with replayed(path) as channel, connect(channel) as client:
        result = await client.call_tool("enter", {"password": "another-one"})

    assert "[redacted]" in result.content[0].text  # type: ignore[union-attr]


async def test_recorded_pauses_are_divided_by_the_speed(tmp_path: Path, autojump_clock: MockClock) -> None:
    path = written(
        tmp_path / "x.jsonl",
        (10.0, "in", {"id": 1, "method": "grow"}),
        (50.0, "out", {"method": "notifications/message", "params": {"level": "info", "data": "half"}}),
        (90.0, "out", {"id": 1, "result": {}}),
    )
    for speed, seconds in ((1.0, 80.0), (4.0, 20.0), (0.0, 0.0)):
        before = trio.current_time()
        got = await talk(replay(path, speed), Request(1, "grow"), wanted=2)
        assert [type(each) for each in got] == [Notification, Response]
        assert trio.current_time() - before == pytest.approx(seconds)


async def test_question_of_a_handshake_session_is_asked_again(tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.jsonl",
        (0, "in", {"id": 1, "method": "grow"}),
        (1, "out", {"id": 7, "method": "elicitation/create", "params": {"message": "How high?"}}),
        (2, "in", {"id": 7, "result": {"action": "decline"}}),
        (3, "out", {"id": 1, "result": {"height": 0}}),
    )
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replay(path).serve, theirs)
        await ours.send([Request(9, "grow")])
        [question] = await ours.receive()
        assert isinstance(question, Request)
        assert (question.method, question.params) == ("elicitation/create", {"message": "How high?"})
        await ours.send([Response(question.id, {"action": "accept"})])
        assert await ours.receive() == [Response(9, {"height": 0})]
        await ours.aclose()


async def test_subscription_has_the_id_of_the_live_request(tmp_path: Path) -> None:
    meta = {"io.modelcontextprotocol/subscriptionId": 1}
    changed = {"method": "notifications/tools/list_changed", "params": {"_meta": meta}}
    path = written(
        tmp_path / "x.jsonl",
        (0, "in", {"id": 1, "method": "subscriptions/listen", "params": {}}),
        (1, "in", {"id": 2, "method": "grow"}),
        (2, "out", changed),
        (3, "out", {"id": 2, "result": {}}),
    )
    got = await talk(replay(path), Request("live", "subscriptions/listen", {}), wanted=1)

    live = {"io.modelcontextprotocol/subscriptionId": "live"}
    assert got == [Notification("notifications/tools/list_changed", {"_meta": live})]


async def test_cancelled_request_has_no_answer(tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.jsonl",
        (0, "in", {"id": 1, "method": "grow"}),
        (1, "in", {"method": "notifications/cancelled", "params": {"requestId": 1}}),
        (2, "in", {"id": 2, "method": "ping"}),
        (3, "out", {"id": 2, "result": {}}),
    )
    cancelled = Notification("notifications/cancelled", {"requestId": 5})
    got = await talk(replay(path), Request(5, "grow"), cancelled, Request(6, "ping"), wanted=1)

    assert got == [Response(6, {})]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"t": "soon", "dir": "in", "message": {}}',
        '{"t": 1, "dir": "up", "message": {}}',
        '{"t": 1, "dir": "in", "message": []}',
    ],
)
def test_line_that_cannot_be_read_is_counted(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "x.jsonl", (0, "in", {"id": 1, "method": "ping"}))
    path.write_text(path.read_text() + f"{line}\n")

    transcript = read_transcript(path)
    assert (len(transcript.entries), transcript.unreadable) == (1, 1)


@pytest.mark.parametrize(
    "message",
    [
        {"id": {}, "method": "ping"},
        {"id": 1, "method": 5},
        {"id": 1, "method": "ping", "params": []},
        {"id": 1, "method": "ping", "params": {"_meta": 5}},
        {"id": 1, "result": 5},
        {"id": 1, "error": 5},
        {"method": "notifications/progress", "params": {"progressToken": {}}},
    ],
)
async def test_odd_message_of_a_recording_breaks_nothing(tmp_path: Path, message: dict[str, Any]) -> None:
    path = written(
        tmp_path / "x.jsonl",
        (0, "in", {"id": 1, "method": "grow"}),
        (1, "in", message),
        (1, "out", message),
        (3, "in", {"id": 4, "method": "shrink"}),
        (3, "out", {"id": 4, "result": {}}),
    )
    server = replay(path)
    assert server.revision is None
    assert await talk(server, Request(8, "shrink"), wanted=1) == [Response(8, {})]
