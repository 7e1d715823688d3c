"""A server with tasks that a test can kill and resume: the fixture ``mcp_tasks``.

The server and its client are in this process. Its stores are in memory, and the next server gets the same stores. After
a kill, the stores accept nothing from the old server and lose its claims, as after a SIGKILL of a real process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import trio
from attrs import evolve

from mcptrio.abc import EffectClaim, EffectState, EffectStore, Stores, TaskQueue, TaskRecord, TaskState, TaskStore
from mcptrio.client.client import Client
from mcptrio.client.handlers import Handlers
from mcptrio.connecting.connect import connect
from mcptrio.errors import StoreFailed
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.runtime.settings import ServerSettings
from mcptrio.server import Server
from mcptrio.stores.memory import MemoryBus, memory_stores
from mcptrio.testing.clock import waiting_for_threads
from mcptrio.testing.server_spec import ServerSpec

__all__ = ["KillableServer", "open_killable"]


class KillableServer:
    """A server, its client and its stores. Made by the fixture ``mcp_tasks``."""

    server: Server
    """The running server or, after :meth:`kill`, the last one."""
    client: Client
    """The client of the server. :meth:`resume` connects a new one."""

    def __init__(
        self, spec: ServerSpec, nursery: trio.Nursery, *, handlers: Handlers | None, options: Mapping[str, Any]
    ) -> None:
        self._spec = spec
        self._nursery = nursery
        self._client_options = {"handlers": handlers, **options}
        self._shared = memory_stores(bus=MemoryBus())
        self._lost_effects: set[tuple[str, str]] = set()
        self._process: _Process | None = None
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def kill(self) -> None:
        """End the server as SIGKILL does: its client loses the connection, and no result or status is stored.

        Raises:
            RuntimeError: The server does not run.
        """
        if self._process is None:
            raise RuntimeError("kill: expected a server that runs; call resume() first")
        await self._process.kill()
        self._process = None
        # A killed process gives its requests no time to end, so the drain deadline has already passed.
        self.server.supervisor.gate.close()
        self.server.supervisor.gate.drain_deadline = -inf
        self._scope.cancel()
        await self._ended.wait()

    async def resume(self) -> Client:
        """Start another server with the same plugins and stores, and connect a client.

        Raises:
            RuntimeError: The server runs.
        """
        if self._process is not None:
            raise RuntimeError("resume: expected a server that was killed; call kill() first")
        process = _Process(self._shared, self._lost_effects)
        settings: ServerSettings = self._spec.options.get("settings") or ServerSettings()
        settings = evolve(settings, stores=process.stores)
        self.server = evolve(self._spec, options={**self._spec.options, "settings": settings}).make()
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        self.client = await self._nursery.start(self._run)
        self._process = process
        return self.client

    async def _run(self, *, task_status: trio.TaskStatus[Client]) -> None:
        try:
            with self._scope, waiting_for_threads(self.server.supervisor.threads):
                async with self.server.open(), connect(self.server, **self._client_options) as client:
                    task_status.started(client)
                    await trio.sleep_forever()
        finally:
            self._ended.set()


@asynccontextmanager
async def open_killable(
    spec: ServerSpec, *, handlers: Handlers | None = None, options: Mapping[str, Any] | None = None
) -> AsyncIterator[KillableServer]:
    """Run a server with tasks, in memory, inside the context.

    Args:
        spec: The description of the server.
        handlers: Answer the questions of the server.
        options: Further arguments of ``mcptrio.connect``.

    Raises:
        PluginError: A plugin failed, and the server is strict.
        ConfigError: The description is invalid.
    """
    async with open_hidden_nursery() as nursery:
        killable = KillableServer(spec, nursery, handlers=handlers, options=options or {})
        await killable.resume()
        yield killable
        nursery.cancel_scope.cancel()


class _Process:
    """The stores of one server, until it is killed.

    Args:
        shared: The stores of all servers.
        lost: The effects that killed servers were running.
    """

    def __init__(self, shared: Stores, lost: set[tuple[str, str]]) -> None:
        assert shared.tasks is not None, "memory_stores() has them"
        assert shared.effects is not None, "memory_stores() has them"
        self._tasks = _Tasks(shared.tasks)
        self._effects = _Effects(shared.effects, lost)
        self.stores = evolve(shared, tasks=self._tasks, effects=self._effects)

    async def kill(self) -> None:
        self._effects.kill()
        await self._tasks.kill()


class _Tasks:
    """A :class:`mcptrio.abc.TaskStore` for one process. A dead process holds no task, so it cannot store anything."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._held: dict[str, int] = {}
        """The fences of the tasks that the process has held."""
        self._is_dead = False

    async def kill(self) -> None:
        self._is_dead = True
        for id, fence in self._held.items():
            while (
                (record := await self._store.load(id)) and record.state is TaskState.RUNNING and record.fence == fence
            ):
                await self._store.save(evolve(record, state=TaskState.QUEUED), held=True)

    async def create(self, record: TaskRecord, *, keep: float | None = None) -> TaskRecord:
        if self._is_dead:
            raise StoreFailed("the server was killed")
        return self._note_claim(await self._store.create(record, keep=keep))

    async def claim(self, tools: Mapping[str, int]) -> TaskRecord | None:
        record = await self._store.claim(tools) if not self._is_dead else None
        return self._note_claim(record) if record is not None else None

    async def load(self, id: str) -> TaskRecord | None:
        return await self._store.load(id) if not self._is_dead else None

    async def save(self, record: TaskRecord, *, held: bool = False) -> TaskRecord | None:
        return await self._store.save(record, held=held) if not self._is_dead else None

    async def list(self, owner: str, after: str = "") -> list[TaskRecord]:
        return await self._store.list(owner, after)

    async def queues(self) -> Sequence[TaskQueue]:
        return await self._store.queues()

    async def expire(self) -> int:
        return await self._store.expire()

    def _note_claim(self, record: TaskRecord) -> TaskRecord:
        if record.state is TaskState.RUNNING:
            self._held[record.id] = record.fence
        return record


class _Effects:
    """A :class:`mcptrio.abc.EffectStore` for one process.

    If a process dies during an effect, the outcome of the effect is unknown.
    """

    def __init__(self, store: EffectStore, lost: set[tuple[str, str]]) -> None:
        self._store = store
        self._lost = lost
        self._claimed: set[tuple[str, str]] = set()
        self._is_dead = False

    def kill(self) -> None:
        self._is_dead = True
        self._lost |= self._claimed

    async def claim(self, call: str, key: str) -> EffectClaim:
        if (call, key) in self._lost:
            return EffectClaim(EffectState.LOST)
        effect = await self._store.claim(call, key)
        if effect.state is EffectState.CLAIMED:
            self._claimed.add((call, key))
        return effect

    async def finish(self, call: str, key: str, result: bytes, keep: float = 3600.0) -> None:
        if not self._is_dead:
            await self._store.finish(call, key, result, keep)
            self._claimed.discard((call, key))

    async def release(self, call: str, key: str) -> None:
        if not self._is_dead:
            await self._store.release(call, key)
            self._claimed.discard((call, key))
