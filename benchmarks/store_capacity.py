"""Measures the cost of one operation for the engine of a store: ``python benchmarks/store_capacity.py URL``.

Processor time is that of the engine's processes, which must be on this machine, with nothing else to do. Bytes are
memory of Redis, and disk of PostgreSQL. docs/replicas-in-production.md has formulas with these figures.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import trio
from calls import HANDSHAKE
from connections import connected, open_session
from load_http import make_calls
from load_sse import read_burst
from machine import describe_machine
from redis import Redis
from replica_figures import serving
from tables import terminal

from mcptrio.abc import SessionRecord, Stores
from mcptrio.stores import StoreSettings, open_stores

__all__ = ["main"]

_EVENT: Final = b"x" * 300
_EVENTS: Final = 5000
_COUNT: Final = 5000
_SECONDS: Final = 5.0
_TASKS: Final = 16
_CLIENT: Final = {"name": "a client", "version": "1.0.0", "title": "A client of the usual size"}
_CAPABILITIES: Final = {"elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}, "sampling": {}}

Row = tuple[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", metavar="URL", help="of the stores; their tables must exist")
    url = parser.parse_args().url
    engine = _Redis(url) if url.startswith("redis") else _Postgres(url)
    rows: list[Row] = [("", "the engine"), *_of_requests(url, engine), *trio.run(_of_stores, url, engine)]
    print(describe_machine())
    print(terminal(rows))
    return 0


class _Redis:
    def __init__(self, url: str) -> None:
        self._client: Any = Redis.from_url(url)

    def seconds(self) -> float:
        found = self._client.info("cpu")
        return float(found["used_cpu_user"] + found["used_cpu_sys"])

    def size(self) -> int:
        return int(self._client.info("memory")["used_memory"])


class _Postgres:
    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        backend = self._row("SELECT pg_backend_pid()")
        self._main = int(_stat(backend)[1])

    def seconds(self) -> float:
        """Return the time of all processes, also of those that have ended."""
        children = Path(f"/proc/{self._main}/task/{self._main}/children").read_text().split()
        ticks = sum(sum(map(int, _stat(int(pid))[11:15])) for pid in (self._main, *children))
        return ticks / os.sysconf("SC_CLK_TCK")

    def size(self) -> int:
        self._connection.execute("CHECKPOINT")
        tables = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class"
        return self._row(f"{tables} WHERE relnamespace = 'mcptrio'::regnamespace AND relkind = 'r'")

    def _row(self, statement: str) -> int:
        row: tuple[Any, ...] | None = self._connection.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])


def _stat(pid: int) -> list[str]:
    """Return the fields after the name, of which the second is the parent and four are times."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _of_requests(url: str, engine: _Redis | _Postgres) -> Iterator[Row]:
    """Requests over HTTP, with all that the server does for them in the store."""
    with serving(url) as (_, port):
        began, before = time.monotonic(), engine.seconds()
        time.sleep(_SECONDS)
        yield "a replica without requests", f"{(engine.seconds() - before) / (time.monotonic() - began):.2%} of a core"
        for count in (1, _TASKS):
            with connected(port, HANDSHAKE, count) as connections:
                make_calls(connections, 1.0)
                before = engine.seconds()
                load = make_calls(connections, _SECONDS)
                spent = engine.seconds() - before
            calls = load.rate * _SECONDS
            yield f"a call of a session, {count} at once", f"{spent / calls * 1e6:.0f} µs"
        with connected(port, HANDSHAKE, 1) as (connection,):
            peer = open_session(connection, port)
            read_burst(connection, peer, _EVENTS)
            before = engine.seconds()
            read_burst(connection, peer, _EVENTS)
            yield "an event of one call's stream", f"{(engine.seconds() - before) / _EVENTS * 1e6:.0f} µs"


async def _of_stores(url: str, engine: _Redis | _Postgres) -> list[Row]:
    run = secrets.token_hex(4)
    rows: list[Row] = []
    # Limits that drop nothing, and another replica, whose followers get the messages.
    settings = StoreSettings(stream_events=10**6, session_bytes=10**10)
    async with open_stores(url, settings) as stores, open_stores(url, settings) as other:
        assert other.bus is not None

        async def measure(name: str, work: Callable[[int], Any], *, has_size: bool = True) -> None:
            spent, size = engine.seconds(), engine.size()
            await _in_tasks(work)
            spent, size = engine.seconds() - spent, engine.size() - size
            rows.append((name, f"{spent / _COUNT * 1e6:.0f} µs" + (f", {size / _COUNT:,.0f} B" if has_size else "")))

        def record(at: int) -> SessionRecord:
            return SessionRecord(
                id=f"{run}-{at}", revision="2025-11-25", client_info=_CLIENT, client_capabilities=_CAPABILITIES
            )

        async def follow(at: int) -> None:
            assert other.bus is not None
            other.bus.follow(f"session:{run}-{at}", lambda _: None)

        await measure("a new session", lambda at: stores.sessions.save(record(at)))
        await measure("a follower", follow, has_size=False)
        await measure("a new stream with one event of 300 bytes", lambda at: _append(stores, f"{run}-{at}", at))
        await measure("an event of 300 bytes, 16 at once", lambda at: _append(stores, f"{run}-{at % _TASKS}", at))
        await measure("a read of a stream", lambda at: stores.events.read(f"{run}-{at}", "x", 0), has_size=False)
        await measure("a message in an inbox", lambda at: stores.events.put(f"{run}-{at}", _EVENT))
        await measure("an effect", lambda at: _effect(stores, f"{run}-{at}"))
        await measure("a rate", lambda at: stores.quotas.take(f"{at}", count=5, seconds=60, burst=5))  # type: ignore[union-attr]
        await measure("a proof of possession", lambda at: stores.replays.use(f"{run}-{at}", 300))  # type: ignore[union-attr]
    return rows


async def _in_tasks(work: Callable[[int], Any]) -> None:
    async def one(first: int) -> None:
        for at in range(first, _COUNT, _TASKS):
            await work(at)

    async with trio.open_nursery() as nursery:
        for first in range(_TASKS):
            nursery.start_soon(one, first)
    # The queue of messages is sent in the background.
    await trio.sleep(0.5)


async def _append(stores: Stores, session: str, at: int) -> None:
    await stores.events.append(session, "x", _EVENT, will=b"w" * 100 if at < _COUNT else None)


async def _effect(stores: Stores, call: str) -> None:
    assert stores.effects is not None
    await stores.effects.claim(call, "effect")
    await stores.effects.finish(call, "effect", _EVENT)


if __name__ == "__main__":
    sys.exit(main())
