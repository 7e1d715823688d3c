"""Progress: increasing, rate-limited, the newest replaces a queued one, and the last is sent before the response."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from mcptrio import Context, Server
from mcptrio.outbox import Outbox
from mcptrio.protocol.messages import Notification
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS
from mcptrio.runtime.progress import BURST, RATE, ProgressReporter
from tests.runtime.peers import connected, tool

__all__: list[str] = []


def told(outbox: Outbox) -> list[float]:
    values = []
    for item in outbox.try_take():
        assert isinstance(item, Notification)
        assert item.params is not None
        values.append(item.params["progress"])
    return values


@given(st.lists(st.floats(-1e6, 1e6), max_size=50))
def test_sent_progress_increases(values: list[float]) -> None:
    async def main() -> list[float]:
        outbox = Outbox()
        progress = ProgressReporter("t", outbox, LATEST)
        for value in values:
            progress.report(value, None, None)
            await trio.sleep(1)
        progress.flush()
        return told(outbox)

    sent = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert all(one < other for one, other in pairwise(sent))
    assert not values or sent[-1] == max(values)


async def test_fast_progress_is_rate_limited_and_keeps_the_latest(autojump_clock: MockClock) -> None:
    outbox = Outbox()
    progress = ProgressReporter(1, outbox, LATEST)
    for value in range(1000):
        progress.report(value, 1000, None)
    assert told(outbox) == list(range(int(BURST)))

    await trio.sleep(1)
    progress.report(1000, 1000, "almost")
    assert told(outbox) == [1000]
    for value in range(1001, 1100):
        progress.report(value, None, None)
    assert len(told(outbox)) == min(BURST, RATE) - 1
    progress.flush()
    assert told(outbox) == [1099]
    progress.flush()
    assert told(outbox) == []


async def test_progress_in_a_full_outbox_replaces_the_queued_one(autojump_clock: MockClock) -> None:
    outbox = Outbox(1)
    progress = ProgressReporter(1, outbox, LATEST)
    for value in range(5):
        progress.report(value, None, None)
    assert told(outbox) == [4]


@pytest.mark.parametrize("value", [nan, inf, -inf])
async def test_progress_that_is_not_a_number_is_refused(value: float, autojump_clock: MockClock) -> None:
    """It is refused with and without a progress token."""
    refused: list[float | None] = []

    async def report(ctx: Context) -> str:
        for progress, total in ((value, None), (1, value)):
            with pytest.raises(ValueError, match="finite"):
                await ctx.report_progress(progress, total)
            refused.append(value)
        return "done"

    server = Server()
    server.add_tool(report)
    async with connected(server) as client:
        await client.result(tool(1, "report"))
        await client.result(tool(2, "report", _meta={"progressToken": 1}))
    assert len(refused) == 4


@pytest.mark.parametrize(("version", "message"), [("2024-11-05", None), ("2025-03-26", "half")])
async def test_progress_message_is_sent_in_revisions_with_messages(version: str, message: Any) -> None:
    outbox = Outbox()
    ProgressReporter("t", outbox, REVISIONS[version]).report(1, 2, "half")
    (item,) = outbox.try_take()
    assert isinstance(item, Notification)
    assert item.params is not None
    assert item.params == {"progressToken": "t", "progress": 1, "total": 2, **({"message": message} if message else {})}
