"""The engines of a trial: a file, Redis, PostgreSQL. Each can be killed, started again and stalled."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import trio
from attrs import define, field

from tests.processes import environment, held_port
from tests.replicas.fault_proxy import Direction, FaultProxy, fault_proxy
from tests.replicas.processes import Program, program_path, until_listening

__all__ = ["ENGINES", "Engine", "engine_of"]

_START_SECONDS: Final = 30.0


@define
class Engine:
    """
    Attributes:
        url: what replicas are started with.
        direct_url: the same without the proxy that damages connections.
        faults: by name; each does damage for some seconds and heals it before it ends.
        settings: environment variables of the replicas.
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
    data = folder / "redis"
    data.mkdir()
    with held_port() as port:
        arguments = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(data), "--save", ""]
        arguments += ["--appendonly", "yes", "--maxmemory-policy", "noeviction"]
        program = Program([program_path("redis-server"), *arguments], folder, folder / "redis.log")
        async with _running(program, port), fault_proxy(port) as proxy:
            urls = [f"redis://127.0.0.1:{each}" for each in (proxy.port, port)]
            yield Engine("redis", *urls, _faults(program, port, proxy))


@asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[Engine]:
    """PostgreSQL, as a user that is not root, behind a proxy that damages connections."""
    user = "postgres" if os.geteuid() == 0 else None
    # Not below the folder of the test, which only its own user may enter.
    data = Path(tempfile.mkdtemp(prefix="mcptrio-trial-"))
    try:
        if user is not None:
            shutil.chown(data, user, user)
        initdb = [program_path("initdb"), "-D", f"{data}/data", "-U", "mcptrio", "-A", "trust", "-E", "UTF8"]
        as_user: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        await trio.run_process([*initdb, "--locale=C", "--no-sync"], capture_stdout=True, cwd=data, **as_user)
        with held_port() as port:
            # The trial kills processes, never the machine, so fsync adds nothing.
            settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": data, "fsync": "off"}
            options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            command = [program_path("postgres"), "-D", f"{data}/data", *options]
            program = Program(command, data, folder / "postgres.log", user=user)
            async with _running(program, port), fault_proxy(port) as proxy:
                own = f"postgresql://mcptrio@127.0.0.1:{port}/postgres"
                await _migrate(own)
                faults = _faults(program, port, proxy)

                @asynccontextmanager
                async def terminated(seconds: float) -> AsyncIterator[None]:
                    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                    psql = [program_path("psql"), own, "-c", f"{others} AND backend_type = 'client backend'"]
                    await trio.run_process(psql, capture_stdout=True, capture_stderr=True, check=False)
                    yield

                url = f"postgresql://mcptrio@127.0.0.1:{proxy.port}/postgres"
                yield Engine("postgres", url, own, {**faults, "terminate connections": terminated})
    finally:
        shutil.rmtree(data, ignore_errors=True)


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


def _faults(
    program: Program, port: int, proxy: FaultProxy
) -> dict[str, Callable[[float], AbstractAsyncContextManager[None]]]:
    @asynccontextmanager
    async def killed(seconds: float) -> AsyncIterator[None]:
        # PostgreSQL has children that share its memory: those end with it on SIGQUIT, without a checkpoint.
        program.signal(
            signal.SIGQUIT if program.user is not None or "postgres" in program.command[0] else signal.SIGKILL
        )
        await program.wait()
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                program.start()
                await until_listening(program, port)

    @asynccontextmanager
    async def stopped(seconds: float) -> AsyncIterator[None]:
        with _stopped(program):
            yield

    return {
        "kill the engine": killed,
        "stall the engine": stopped,
        "delay the network": lambda seconds: proxy.delayed(0.2),
        "stall the network": lambda seconds: proxy.stalled(),
        "cut the network to the engine": lambda seconds: proxy.cut(Direction.TO_ENGINE),
        "cut the network from the engine": lambda seconds: proxy.cut(Direction.FROM_ENGINE),
    }


@contextmanager
def _stopped(program: Program) -> Any:
    """Stop all processes of an engine for the block."""
    assert program.process is not None
    main = program.process.pid
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    pids = [main, *map(int, children)]
    for pid in pids:
        _signal(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # a worker process of the engine has ended


@asynccontextmanager
async def _running(program: Program, port: int) -> AsyncIterator[None]:
    program.start()
    try:
        await until_listening(program, port)
        yield
    finally:
        # SIGINT ends PostgreSQL with its connections; Redis needs no more.
        if program.is_running:
            program.signal(signal.SIGCONT)
            program.signal(signal.SIGINT)
        with trio.move_on_after(_START_SECONDS, shield=True):
            await program.wait()
        program.end()


async def _migrate(url: str) -> None:
    """Make the tables, once the engine accepts queries."""
    command = [sys.executable, "-m", "mcptrio", "store", "migrate", url]
    await trio.run_process(
        command, env=environment(MCPTRIO_STORES_START_TIMEOUT=str(_START_SECONDS)), stdout=subprocess.DEVNULL
    )
