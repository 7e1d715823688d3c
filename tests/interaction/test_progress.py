"""Progress: increasing, rate-limited, on the request's own stream, never after the response."""

from __future__ import annotations

from math import nan

import pytest
import trio

from mcptrio import Context, tool
from tests.error_codes import INVALID_PARAMS
from tests.interaction.applies import SINCE_2025_03, only
from tests.interaction.serving import Serve

PROGRESS = "notifications/progress"


@tool
async def steps(ctx: Context, values: list[float], total: float | None = None, pause: float = 0) -> str:
    """Report these values."""
    for value in values:
        await ctx.report_progress(value, total, f"at {value:g}")
        await trio.sleep(pause)
    return "done"


@tool
async def track(ctx: Context, count: int) -> str:
    """Go over a list."""
    return ",".join([str(item) async for item in ctx.track(range(count))])


@tool
async def odd(ctx: Context) -> str:
    """Report what is no number."""
    await ctx.report_progress(nan)
    return "done"


async def test_progress_with_its_token_precedes_the_answer(serve: Serve) -> None:
    peer = await serve(steps)

    for token in ("token", 7, 0, ""):
        peer.received.clear()
        await peer.call("steps", {"values": [1, 2], "total": 2}, meta={"progressToken": token})

        first, second = peer.notes(PROGRESS)
        assert (first["progressToken"], first["progress"], first["total"]) == (token, 1, 2)
        assert second["progress"] == 2
        assert "result" in peer.received[-1]
        assert ("message" in first) == (serve.revision in SINCE_2025_03)


async def test_progress_without_a_token_is_not_sent(serve: Serve) -> None:
    peer = await serve(steps)

    assert await peer.text("steps", {"values": [1, 2]}) == "done"
    assert peer.notes(PROGRESS) == []


async def test_token_of_another_type_is_ignored_or_refused(serve: Serve) -> None:
    peer = await serve(steps)

    tokens: list[object] = [None, True, 1.5, [], {}]
    for token in tokens:
        answer = await (await peer.start_call("steps", {"values": [1]}, meta={"progressToken": token})).wait()

        assert answer.get("error", {}).get("code", INVALID_PARAMS) == INVALID_PARAMS
    assert peer.notes(PROGRESS) == []


async def test_progress_that_does_not_increase_is_not_sent(serve: Serve) -> None:
    peer = await serve(steps)

    await peer.call("steps", {"values": [1, 1, 3, 2, 3, 4]}, meta={"progressToken": 1})

    assert [note["progress"] for note in peer.notes(PROGRESS)] == [1, 3, 4]


async def test_fast_progress_is_thinned_and_its_last_report_sent(serve: Serve) -> None:
    peer = await serve(steps)

    await peer.call("steps", {"values": list(range(1, 1001))}, meta={"progressToken": 1})

    sent = [note["progress"] for note in peer.notes(PROGRESS)]
    assert len(sent) < 100
    assert sent == sorted(set(sent))
    assert sent[-1] == 1000


@only(transports=["memory"], because="only in memory is there a mock clock, which skips the waits")
async def test_slow_progress_is_delivered_completely(serve: Serve) -> None:
    peer = await serve(steps)

    await peer.call("steps", {"values": list(range(1, 51)), "pause": 0.1}, meta={"progressToken": 1})

    assert len(peer.notes(PROGRESS)) == 50


async def test_track_reports_progress_of_an_iteration(serve: Serve) -> None:
    peer = await serve(track)

    assert await peer.text("track", {"count": 3}, meta={"progressToken": 1}) == "0,1,2"
    assert [(note["progress"], note["total"]) for note in peer.notes(PROGRESS)] == [(1, 3), (2, 3), (3, 3)]


async def test_progress_after_the_response_is_not_sent(serve: Serve) -> None:
    answered, reported = trio.Event(), trio.Event()

    @tool
    async def leaves_a_task(ctx: Context) -> str:
        """Report from a task that outlives the answer."""

        async def late() -> None:
            await answered.wait()
            await ctx.report_progress(2)
            reported.set()

        serve.server.supervisor.nursery.start_soon(late)
        await ctx.report_progress(1)
        return "done"

    peer = await serve(leaves_a_task)

    await peer.call("leaves_a_task", meta={"progressToken": 1})
    answered.set()
    await peer.eventually(reported.is_set)
    await peer.request("tools/list")

    assert [note["progress"] for note in peer.notes(PROGRESS)] == [1]


async def test_progress_that_is_not_finite_fails_the_call_and_is_logged(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await serve(odd)

    assert "odd" in await peer.failure("odd", meta={"progressToken": 1})
    assert "finite" in caplog.text


async def test_each_call_receives_its_own_progress(serve: Serve) -> None:
    peer = await serve(steps)

    calls = [
        await peer.start_call("steps", {"values": [n * 10 + 1, n * 10 + 2]}, meta={"progressToken": f"t{n}"})
        for n in range(5)
    ]
    for call in calls:
        await call.result()

    for number, call in enumerate(calls):
        notes = [note["progress"] for note in peer.notes(PROGRESS) if note["progressToken"] == f"t{number}"]
        assert notes == [number * 10 + 1, number * 10 + 2]
        if call.exchange is not None:
            own = [message["params"]["progressToken"] for message in call.messages if "method" in message]
            assert set(own) == {f"t{number}"}
