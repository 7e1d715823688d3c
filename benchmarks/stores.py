"""How fast the stores of an engine are: appends, sessions, tasks, and messages between two replicas.

    python -m benchmarks.stores memory redis://127.0.0.1:6379 postgresql://postgres@localhost/bench

Each URL is opened twice, as two replicas would. Keys and tables begin with ``bench``.
"""

from __future__ import annotations

import argparse
import re
import secrets
import statistics
import time
from collections.abc import Awaitable, Callable

import trio
from attrs import evolve

from benchmarks.machine import describe_machine
from mcptrio.abc import SessionRecord, Stores, TaskRecord, TaskState
from mcptrio.stores import StoreSettings, open_stores

__all__ = ["main"]

TASKS = (1, 16, 256)
"""Tasks that append at the same time, each to a stream of its own session."""
EVENT = b"x" * 300


async def rate_of_appends(stores: Stores, tasks: int, seconds: float) -> tuple[float, float]:
    """Return appends per second and the median seconds of one."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    run = secrets.token_hex(4)

    async def append(at: int) -> None:
        number = 0
        while (began := time.perf_counter()) < end:
            await stores.events.append(f"{run}-{at}", f"s{number // 100}", EVENT, last=number % 100 == 99, will=b"w")
            taken.append(time.perf_counter() - began)
            number += 1

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for at in range(tasks):
            nursery.start_soon(append, at)
    elapsed = time.perf_counter() - began
    for at in range(tasks):
        await stores.events.drop(f"{run}-{at}")
    return len(taken) / elapsed, statistics.median(taken)


async def rate_of_tasks(stores: Stores, workers: int, seconds: float) -> float:
    """Return how many tasks a second are created, claimed and ended, by as many Trio tasks as given."""
    tasks = stores.tasks
    assert tasks is not None
    end = time.perf_counter() + seconds
    run, count = secrets.token_hex(4), 0

    async def work(at: int) -> None:
        nonlocal count
        number = 0
        while time.perf_counter() < end:
            # Ended ones expire soon, so the limit of tasks is not reached.
            expires = time.time() + 2
            id = f"{run}-{at}-{number}"
            await tasks.create(TaskRecord(id=id, tool="dig", state=TaskState.QUEUED, data=EVENT, expires=expires))
            record = await tasks.claim({"dig": 0})
            if record is not None:
                await tasks.save(evolve(record, state=TaskState.ENDED), held=True)
                count += 1
            number += 1

    async def expire() -> None:
        while True:
            await tasks.expire()
            await trio.sleep(0.2)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expire)
        async with trio.open_nursery() as working:
            for at in range(workers):
                working.start_soon(work, at)
        nursery.cancel_scope.cancel()
    elapsed = time.perf_counter() - began
    await trio.sleep(2.1)
    await tasks.expire()
    return count / elapsed


async def median_of(ask: Callable[[], Awaitable[object]], count: int) -> float:
    """Return the median seconds of one call, one after the other."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        await ask()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


async def median_of_messages(one: Stores, two: Stores, count: int) -> float:
    """Return the median seconds from publishing on one replica to receiving on the other."""
    assert one.bus is not None
    assert two.bus is not None
    send, receive = trio.open_memory_channel[bytes](count)

    def take(message: bytes | None) -> None:
        if message is not None:
            send.send_nowait(message)

    two.bus.follow("bench", take)
    with trio.move_on_after(2):
        # The subscription begins some time after the call.
        while not receive.statistics().current_buffer_used:
            one.bus.publish("bench", b"first")
            await trio.sleep(0.1)
    await trio.sleep(0.2)
    while receive.statistics().current_buffer_used:
        receive.receive_nowait()
    taken = []
    for at in range(count):
        began = time.perf_counter()
        one.bus.publish("bench", b"%d" % at)
        await receive.receive()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


async def measure(url: str, seconds: float) -> None:
    settings = StoreSettings(prefix="bench", max_tasks=100_000)
    print(f"\n{re.sub(r'//[^@/]*@', '//…@', url)}")
    async with open_stores(url, settings) as one, open_stores(url, settings) as two:
        for tasks in TASKS:
            rate, median = await rate_of_appends(one, tasks, seconds)
            print(f"  appends, {tasks:3} tasks      {rate:10,.0f} /s   median {median * 1000:6.2f} ms")
        for workers in TASKS:
            rate = await rate_of_tasks(one, workers, seconds)
            print(f"  tasks ended, {workers:3} at once  {rate:10,.0f} /s")
        record = SessionRecord(id=secrets.token_hex(16), revision="2025-11-25", client_info={"name": "bench"})
        saved = await one.sessions.save(record)
        assert saved is not None
        newest = saved

        async def save() -> None:
            nonlocal newest
            stored = await one.sessions.save(evolve(newest, log_level="info"))
            assert stored is not None
            newest = stored

        print(f"  session save            median {await median_of(save, 500) * 1000:6.2f} ms")
        load = await median_of(lambda: one.sessions.load(record.id), 500)
        print(f"  session load            median {load * 1000:6.2f} ms")
        await one.sessions.delete(record.id)
        if one.bus is not None and one.is_shared:
            print(f"  publish to receive      median {await median_of_messages(one, two, 300) * 1000:6.2f} ms")


def main() -> None:
    """Measure the stores at each URL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds for each number of tasks")
    given = parser.parse_args()
    print(describe_machine())
    for url in given.urls:
        trio.run(measure, url, given.seconds)


if __name__ == "__main__":
    main()
