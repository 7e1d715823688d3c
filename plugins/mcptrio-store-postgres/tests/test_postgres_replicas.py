"""Replicas that are killed, that stop for longer than their lease, and many that share one database."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mcptrio.abc import EffectState, Stores, session_topic, wake_message
from tests.engines.postgres_server import PostgresServer
from tests.stores.shared_contract import TopicListener, eventually

from .conftest import opened

__all__: list[str] = []

LEASE = 1.0
PROGRAM = Path(__file__).with_name("replica_process.py")


@asynccontextmanager
async def other(server: PostgresServer, prefix: str) -> AsyncIterator[trio.Process]:
    """A replica in another process that has a stream and an effect."""
    command = [sys.executable, str(PROGRAM), server.url, prefix, str(LEASE)]
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(_run, command)
        try:
            assert await line(process) == "ready"
            yield process
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                for stream in (process.stdin, process.stdout):
                    assert stream is not None
                    await stream.aclose()


async def _run(command: list[str], *, task_status: trio.TaskStatus[trio.Process]) -> None:
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    task_status.started(process)
    await process.wait()


async def line(process: trio.Process) -> str:
    assert process.stdout is not None
    found = b""
    with trio.fail_after(20):
        while not found.endswith(b"\n"):
            found += await process.stdout.receive_some(1)
    return found.decode().strip()


async def has_ended(stores: Stores) -> bool:
    return (await stores.events.read("s", "x", 0))[1]


async def until_ended(stores: Stores) -> None:
    with trio.fail_after(20):
        while True:
            if await has_ended(stores):
                return
            await trio.sleep(0.05)


async def test_streams_and_effects_of_a_killed_replica_are_completed(postgres: PostgresServer, prefix: str) -> None:
    async with opened(postgres, prefix, lease=LEASE) as stores:
        listener = TopicListener(stores, session_topic("s"))
        await listener.begin()
        async with other(postgres, prefix) as process:
            assert stores.effects is not None
            await eventually(lambda: wake_message("x") in listener.messages, "the stream begins")
            listener.messages.clear()
            killed = trio.current_time()
            process.kill()
            assert (await stores.effects.claim("call", "effect")).state is EffectState.RUNNING
            await eventually(lambda: wake_message("x") in listener.messages, "the reader is woken")

            # Never before a whole lease is missing.
            assert trio.current_time() - killed >= LEASE * 0.6
            events, is_last = await stores.events.read("s", "x", 0)
            assert ([event.data for event in events], is_last) == ([b"1", b"gone"], True)
            assert (await stores.effects.claim("call", "effect")).state is EffectState.LOST
            assert stores.status().replicas == 1


async def test_replica_that_stops_for_longer_than_its_lease_finds_its_streams_closed(
    postgres: PostgresServer, prefix: str
) -> None:
    async with opened(postgres, prefix, lease=LEASE) as stores:
        async with other(postgres, prefix) as process:
            assert process.stdin is not None
            await process.stdin.send_all(b"\n")
            assert await line(process) == "appended"
            process.send_signal(signal.SIGSTOP)
            await until_ended(stores)
            process.send_signal(signal.SIGCONT)
            for _ in range(2):
                await process.stdin.send_all(b"\n")
                assert await line(process) == "closed"
            # Also when the stream has been deleted since: it does not begin again.
            await stores.events.drop("s")
            await process.stdin.send_all(b"\n")
            assert await line(process) == "closed"

            events, _ = await stores.events.read("s", "x", 0)
            assert events == []
            await eventually(lambda: stores.status().replicas == 2, "it is back")


async def test_replica_that_pauses_for_less_than_its_lease_keeps_its_streams(
    postgres: PostgresServer, prefix: str
) -> None:
    async with opened(postgres, prefix, lease=LEASE) as stores:
        async with other(postgres, prefix) as process:
            assert process.stdin is not None

            def expiry() -> object:
                return postgres.run(f"SELECT expires FROM {prefix}.leases WHERE process = %s", process.pid)

            for _ in range(3):
                before = expiry()
                process.send_signal(signal.SIGSTOP)
                await trio.sleep(LEASE * 0.6)
                process.send_signal(signal.SIGCONT)
                await process.stdin.send_all(b"\n")
                assert await line(process) == "appended"
                # The event may be stored first, and two pauses together are longer than the lease.
                await eventually(lambda before=before: expiry() != before, "it renews its lease")  # type: ignore[misc]
            assert not await has_ended(stores)


async def test_many_replicas_change_the_same_sessions(postgres: PostgresServer, prefix: str) -> None:
    """Their transactions lock rows of each other and never fail."""
    count, sessions, rounds = 5, 8, 6

    async def work(stores: Stores, mine: int) -> None:
        assert stores.quotas is not None
        assert stores.replays is not None
        for at in range(rounds):
            async with trio.open_nursery() as nursery:
                for session in range(sessions):
                    name = f"s{session}"
                    nursery.start_soon(stores.events.append, name, f"{mine}-{at}", b"data" * 50)
                    nursery.start_soon(stores.events.put, name, b"%d" % mine)
                    nursery.start_soon(stores.replays.use, f"{session}-{at}", 60)
                    nursery.start_soon(lambda q=name: stores.quotas.take(q, count=5, seconds=1, burst=5))

    async with opened(postgres, prefix, session_bytes=3000) as first:
        async with trio.open_nursery() as nursery:

            async def enter(*, task_status: trio.TaskStatus[Stores]) -> None:
                async with opened(postgres, prefix, session_bytes=3000) as stores:
                    task_status.started(stores)
                    await trio.sleep_forever()

            replicas: list[Stores] = [first, *[await nursery.start(enter) for _ in range(count - 1)]]
            async with trio.open_nursery() as working:
                for at, stores in enumerate(replicas):
                    working.start_soon(work, stores, at)
            for session in range(sessions):
                _, position = await first.events.inbox(f"s{session}", 0)
                assert position == count * rounds
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("size", [6000, 100_000])
async def test_large_message_becomes_a_loss_on_other_replicas(postgres: PostgresServer, prefix: str, size: int) -> None:
    async with opened(postgres, prefix) as one, opened(postgres, prefix) as two:
        assert one.bus is not None
        here, there = TopicListener(one, "topic"), TopicListener(two, "topic")
        await here.begin()
        await there.begin()
        one.bus.publish("topic", b"x" * size)
        await eventually(lambda: None in there.messages, "the loss is known")
        assert here.messages == [b"x" * size]
