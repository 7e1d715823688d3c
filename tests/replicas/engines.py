"""The engines of a trial: a SQLite file, Redis, PostgreSQL; and the faults that can be injected into each."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import trio
from attrs import define, field

from tests.engines.postgres_server import PostgresServer, data_folder
from tests.engines.programs import program_path
from tests.engines.redis_server import RedisServer
from tests.processes import environment, held_port
from tests.replicas.fault_proxy import Direction, FaultProxy, fault_proxy

__all__ = ["ENGINES", "Engine", "engine_of"]

_START_SECONDS: Final = 30.0
# The tables of PostgreSQL that a request needs, and that of the leases.
_TABLES: Final = ("leases", "sessions", "streams", "events", "effects")


@define
class Engine:
    """A running engine that stores what the replicas share, and the faults that can be injected into it.

    Attributes:
        url: The URL for the replicas; it may lead through a proxy that damages connections.
        direct_url: The URL of the engine itself, without the proxy.
        faults: Functions by the name of the fault. Each damages something for some seconds, then
            repairs it.
        settings: Environment variables of the replicas.
    """

    name: str
    url: str
    direct_url: str
    faults: Mapping[str, Callable[[float], AbstractAsyncContextManager[None]]] = field(factory=dict)
    settings: Mapping[str, str] = field(factory=dict)
    durable: bool = True


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[Engine]:
    """A file that the replicas share."""
    path = folder / "sessions.db"

    @asynccontextmanager
    async def locked(seconds: float) -> AsyncIterator[None]:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    url = f"sqlite:{path}"
    yield Engine("sqlite", url, url, {"lock the file": locked})


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[Engine]:
    """No engine: for figures of a single replica."""
    yield Engine("memory", "memory", "memory", durable=False)


@asynccontextmanager
async def redis(folder: Path) -> AsyncIterator[Engine]:
    """Redis with an append-only file, behind a proxy that damages connections."""
    options = ("--appendonly", "yes", "--maxmemory-policy", "noeviction")
    with held_port() as port:
        server = RedisServer(folder / "redis", *options, port=port)
        async with _running(server), fault_proxy(port) as proxy:
            urls = [f"redis://127.0.0.1:{each}" for each in (proxy.port, port)]

            @asynccontextmanager
            async def flushed(seconds: float) -> AsyncIterator[None]:
                await trio.to_thread.run_sync(server.command, "SCRIPT", "FLUSH")
                yield

            @asynccontextmanager
            async def full(seconds: float) -> AsyncIterator[None]:
                # Less than an empty engine needs: it refuses each write that needs memory.
                await trio.to_thread.run_sync(server.command, "CONFIG", "SET", "maxmemory", "1")
                try:
                    yield
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.to_thread.run_sync(server.command, "CONFIG", "SET", "maxmemory", "0")

            faults = _faults(server, proxy)
            yield Engine("redis", *urls, {**faults, "flush the scripts": flushed, "fill the memory": full})


@asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[Engine]:
    """PostgreSQL, as a user that is not root, behind a proxy that damages connections."""
    with data_folder() as data, held_port() as port:
        server = PostgresServer(data, port=port)
        async with _running(server), fault_proxy(port) as proxy:
            await _migrate(server.url)

            @asynccontextmanager
            async def terminated(seconds: float) -> AsyncIterator[None]:
                others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                await trio.to_thread.run_sync(server.run, f"{others} AND backend_type = 'client backend'")
                yield

            @asynccontextmanager
            async def locked(seconds: float) -> AsyncIterator[None]:
                tables = ", ".join(f"mcptrio.{name}" for name in _TABLES)
                # Of two transactions that wait for each other, the engine ends one; this one then locks nothing.
                lock = f"BEGIN; LOCK TABLE {tables}; SELECT pg_sleep({seconds}); COMMIT"
                async with trio.open_nursery() as nursery:
                    psql = partial(trio.run_process, capture_stdout=True, capture_stderr=True, check=False)
                    nursery.start_soon(psql, [program_path("psql"), server.url, "-c", lock])
                    yield

            url = f"postgresql://mcptrio@127.0.0.1:{proxy.port}/postgres"
            faults = {**_faults(server, proxy), "terminate connections": terminated, "lock the tables": locked}
            yield Engine("postgres", url, server.url, faults)


ENGINES: Final[dict[str, Callable[[Path], AbstractAsyncContextManager[Engine]]]] = {
    "sqlite": sqlite,
    "redis": redis,
    "postgres": postgres,
    "memory": memory,
}


def engine_of(name: str, folder: Path) -> AbstractAsyncContextManager[Engine]:
    """Return the engine with this name, or the engine at a URL, which gets no faults."""
    if name in ENGINES:
        return ENGINES[name](folder)

    @asynccontextmanager
    async def given() -> AsyncIterator[Engine]:
        yield Engine(name.partition(":")[0], name, name)

    return given()


class _Server(Protocol):
    """The process of an engine. Its methods block."""

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def stop(self) -> None: ...

    def stalled(self) -> AbstractContextManager[None]: ...


def _faults(server: _Server, proxy: FaultProxy) -> dict[str, Callable[[float], AbstractAsyncContextManager[None]]]:
    @asynccontextmanager
    async def killed(seconds: float) -> AsyncIterator[None]:
        await trio.to_thread.run_sync(server.kill)
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(server.start)

    @asynccontextmanager
    async def stopped(seconds: float) -> AsyncIterator[None]:
        with server.stalled():
            yield

    return {
        "kill the engine": killed,
        "stall the engine": stopped,
        "delay the network": lambda seconds: proxy.delayed(0.2),
        "stall the network": lambda seconds: proxy.stalled(),
        "cut the network to the engine": lambda seconds: proxy.cut(Direction.TO_ENGINE),
        "cut the network from the engine": lambda seconds: proxy.cut(Direction.FROM_ENGINE),
    }


@asynccontextmanager
async def _running(server: _Server) -> AsyncIterator[None]:
    await trio.to_thread.run_sync(server.start)
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.stop)


async def _migrate(url: str) -> None:
    """Make the tables, once the engine accepts queries."""
    command = [sys.executable, "-m", "mcptrio", "store", "migrate", url]
    await trio.run_process(
        command, env=environment(MCPTRIO_STORES_START_TIMEOUT=str(_START_SECONDS)), stdout=subprocess.DEVNULL
    )
