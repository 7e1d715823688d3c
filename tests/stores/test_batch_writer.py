"""A batch writer does together what waits together, within its bounds, and ends in order."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import outcome
import pytest
import trio
import trio.testing

from mcptrio.errors import StoreFailed
from mcptrio.stores.batch_writer import MAX_BATCH, MAX_WAITING, MAX_WAITING_BYTES, BatchWriter

__all__: list[str] = []


class Recorder:
    """Does batches of numbers, and holds each back until :attr:`may_go` is set."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_go = threading.Event()

    def __call__(self, works: Sequence[int]) -> list[outcome.Value[Any] | outcome.Error]:
        self.batches.append(list(works))
        assert self.may_go.wait(60)
        return [outcome.Error(ValueError(str(each))) if each < 0 else outcome.Value(each * 2) for each in works]


async def test_queued_writes_share_one_batch_and_return_their_results() -> None:
    do, results = Recorder(), {}
    writer = BatchWriter("s", do)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)

        async def write(number: int) -> None:
            try:
                results[number] = await writer.write(number)
            except ValueError as error:
                results[number] = str(error)

        async with trio.open_nursery() as writing:
            for number in (1, -2, 3, *range(10, 10 + MAX_BATCH)):
                writing.start_soon(write, number)
                # One after the other, so that the first is alone in the first batch.
                await trio.testing.wait_all_tasks_blocked()
            do.may_go.set()
        nursery.cancel_scope.cancel()

    assert results == {1: 2, -2: "-2", 3: 6, **{number: number * 2 for number in range(10, 10 + MAX_BATCH)}}
    assert [len(batch) for batch in do.batches] == [1, MAX_BATCH, 2]


async def test_cancelled_work_is_not_done_and_does_not_disturb_others() -> None:
    do = Recorder()
    writer = BatchWriter("s", do)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        async with trio.open_nursery() as writing:
            writing.start_soon(writer.write, 1)
            await trio.testing.wait_all_tasks_blocked()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as cancelled:
                    cancelled.start_soon(writer.write, 2)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            writing.start_soon(writer.write, 3)
            await trio.testing.wait_all_tasks_blocked()
            do.may_go.set()
        nursery.cancel_scope.cancel()

    assert do.batches == [[1], [3]]


async def test_queue_is_bounded_in_works_and_bytes() -> None:
    do = Recorder()
    writer = BatchWriter("s", do)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        assert writer.post(0)
        await trio.testing.wait_all_tasks_blocked()
        assert [writer.post(1) for _ in range(MAX_WAITING + 1)] == [True] * MAX_WAITING + [False]
        do.may_go.set()
        assert await writer.write(7) == 14

        do.may_go.clear()
        assert writer.post(0)
        await trio.testing.wait_all_tasks_blocked()
        assert [writer.post(1, MAX_WAITING_BYTES // 2) for _ in range(3)] == [True, True, False]
        do.may_go.set()
        nursery.cancel_scope.cancel()


async def test_slow_work_times_out_and_the_next_work_is_done(autojump_clock: trio.testing.MockClock) -> None:
    do = Recorder()
    writer = BatchWriter("the store", do, timeout=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        # The clock is suspended while a thread runs, so the deadline is passed by hand.
        autojump_clock.autojump_threshold = float("inf")

        async def late() -> None:
            with pytest.raises(StoreFailed, match="the store: expected an answer within 2 s, got none"):
                await writer.write(1)

        async with trio.open_nursery() as writing:
            writing.start_soon(late)
            await trio.testing.wait_all_tasks_blocked()
            autojump_clock.jump(3)
        do.may_go.set()
        assert await writer.write(2) == 4
        nursery.cancel_scope.cancel()


async def test_close_completes_the_batch_and_fails_queued_writes() -> None:
    do, ends = Recorder(), {}
    writer = BatchWriter("the store", do)

    async def write(number: int) -> None:
        try:
            ends[number] = await writer.write(number)
        except StoreFailed as error:
            ends[number] = str(error)

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as running:
            running.start_soon(writer.run)
            for number in (1, 2):
                nursery.start_soon(write, number)
                await trio.testing.wait_all_tasks_blocked()
            running.cancel_scope.cancel()
            do.may_go.set()
    await write(3)

    assert ends == {1: 2, 2: "the store: the store is closed", 3: "the store: the store is closed"}
    assert not writer.post(4)


async def test_wrong_number_of_results_ends_run_and_fails_the_callers() -> None:
    writer: BatchWriter[int] = BatchWriter("the store", lambda works: [])

    async def write() -> None:
        with pytest.raises(StoreFailed, match="the store is closed"):
            await writer.write(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        # Not TrioInternalError, which would end the program.
        with pytest.RaisesGroup(ValueError):
            await writer.run()
