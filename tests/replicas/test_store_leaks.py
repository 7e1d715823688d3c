"""Commands of stores leave nothing behind when they are cancelled, in any phase."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psycopg
import pytest
import redis
import trio
from attrs import frozen

from mcptrio.abc import Stores
from mcptrio.stores import open_stores
from tests.replicas.engines import Engine, engine_of

__all__: list[str] = []

ROUNDS, AT_ONCE = 100, 100


@frozen
class Resources:
    descriptors: int
    threads: int
    connections: int


async def resources(engine: Engine) -> Resources:
    connections = await trio.to_thread.run_sync(connections_of, engine)
    return Resources(len(os.listdir("/proc/self/fd")), threading.active_count(), connections)


def connections_of(engine: Engine) -> int:
    """The number of connections that the engine has, this one included."""
    if engine.name == "redis":
        with redis.Redis.from_url(engine.direct_url) as client:
            return len(client.client_list())
    if engine.name == "postgres":
        with psycopg.connect(engine.direct_url) as connection:
            counted = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            row = counted.fetchone()
            assert row is not None
            return int(row[0])
    return 0


async def cancelled_commands(stores: Stores) -> None:
    """Some are cancelled in the queue, some while the engine works, and some just after they are done."""

    async def command(number: int) -> None:
        with trio.move_on_after(number * 0.0001):
            if number % 2:
                await stores.sessions.load(f"session {number}")
            else:
                await stores.events.put(f"session {number}", b"message")

    async with trio.open_nursery() as nursery:
        for number in range(AT_ONCE):
            nursery.start_soon(command, number)


@pytest.mark.parametrize("name", ["sqlite", "redis", "postgres"])
async def test_ten_thousand_cancelled_commands_leave_nothing(name: str, tmp_path: Path) -> None:
    async with engine_of(name, tmp_path) as engine, open_stores(engine.direct_url) as stores:
        # The first ones open connections and threads, which stay.
        await cancelled_commands(stores)
        before = await resources(engine)

        for _ in range(ROUNDS):
            await cancelled_commands(stores)
        await stores.events.put("last", b"message")

        assert (await stores.events.inbox("last", 0))[0] == [b"message"]
        after = await resources(engine)
        assert (after.descriptors, after.connections) == (before.descriptors, before.connections)
        # Trio keeps a few idle threads for the next synchronous function.
        assert after.threads < before.threads + 10
