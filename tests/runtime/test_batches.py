"""Responses to a batch: one array when the last is ready; other messages are sent at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.outbox import Outbox
from mcptrio.protocol.messages import Batch, ErrorResponse, Notification, Request, Response
from mcptrio.runtime.batches import BatchSink
from tests.error_codes import INTERNAL_ERROR

__all__: list[str] = []

THREE = Batch((Request(1, "a"), Request(2, "b"), Notification("c")))


class Starter:
    def __init__(self) -> None:
        self.tasks: list[Callable[[], Awaitable[None]]] = []

    def __call__(self, task: Callable[[], Awaitable[None]]) -> None:
        self.tasks.append(task)

    async def run(self) -> None:
        for task in self.tasks:
            await task()
        self.tasks.clear()


@pytest.mark.parametrize("closes", [False, True])
async def test_responses_of_a_batch_are_sent_together(closes: bool) -> None:
    outbox, start = Outbox(), Starter()
    batch = BatchSink(THREE, outbox, start=start, closes=closes)
    batch.close()
    await batch.send(Response(2, {}))
    batch.close()
    await batch.send(Notification("progress"))
    batch.send_latest(Notification("newest"), "key")
    await batch.send(Request("s", "roots/list"))
    await start.run()
    assert outbox.try_take() == [Notification("progress"), Notification("newest"), Request("s", "roots/list")]

    await batch.send(ErrorResponse(1, INTERNAL_ERROR, "no"))
    batch.close()
    await start.run()
    assert outbox.try_take() == [[Response(2, {}), ErrorResponse(1, INTERNAL_ERROR, "no")]]
    assert outbox.closed is closes


async def test_batch_without_responses_sends_no_array() -> None:
    """JSON-RPC 2.0 section 6: an empty array must not be sent."""
    outbox, start = Outbox(), Starter()
    batch = BatchSink(THREE, outbox, start=start, closes=True)
    for _ in range(3):
        batch.close()
    await start.run()
    assert outbox.try_take() == []
    assert outbox.closed


async def test_responses_to_a_closed_sink_are_dropped() -> None:
    outbox, start = Outbox(), Starter()
    batch = BatchSink(Batch((Request(1, "a"),)), outbox, start=start, closes=True)
    outbox.close()
    await batch.send(Response(1, {}))
    batch.close()
    await start.run()
    with pytest.raises(ConnectionClosed):
        await batch.send(Notification("late"))


async def test_only_a_resumable_stream_is_closed_for_resumption() -> None:
    batch: Any = BatchSink(THREE, Outbox(), start=Starter(), closes=True)
    assert batch.release(1000) is False
    await trio.lowlevel.checkpoint()
