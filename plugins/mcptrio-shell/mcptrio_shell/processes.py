"""The running commands, and ended commands whose output is still kept.

The plugin's lifespan opens the table, and the tools use it. A background command is a task in the lifespan's nursery,
so it ends with the server. Ended commands are limited in number and age; the oldest is evicted first.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio
from attrs import define, field

from mcptrio import ToolError

from .config import Config
from .policy import PermittedCommand
from .process import Process

__all__ = ["Processes", "log_uri", "open_processes"]

_NOTIFY_INTERVAL = 0.5
"""Seconds between two notifications that the output of a command has grown."""


def log_uri(id: str) -> str:
    """Return the URI of the resource with a command's output."""
    return f"process://{id}/log"


@define
class Processes:
    """The table of all commands of the plugin. Made by :func:`open_processes`."""

    config: Config
    _nursery: trio.Nursery
    _processes: dict[str, Process] = field(init=False, factory=dict)
    """The processes by id, in the order of their start."""
    _grown: set[str] = field(init=False, factory=set)
    _growth: trio.Event = field(init=False, factory=trio.Event)

    async def start(self, process: Process, *, seconds: float, stdin: bytes | None) -> None:
        """Run a command in the background, and return when it has started.

        Raises:
            ToolError: The command could not be started.
        """
        await self._nursery.start(partial(process.run, seconds=seconds, stdin=stdin, keep_input=True))

    def admit(self, command: PermittedCommand, owner: str, *, merged: bool) -> Process:
        """Return a new command that is about to be started.

        Args:
            owner: Caller key of its owner (``ctx.caller``).

        Raises:
            ToolError: Too many commands are running.
        """
        self._evict()
        running = [process.owner for process in self._processes.values() if not process.finished.is_set()]
        limit = self.config.max_running_per_caller
        if running.count(owner) >= limit:
            raise ToolError(
                f"{limit} of your commands are running, which is the limit (max_running_per_caller); "
                "wait for one, or stop one with {tool:stop_process}"
            )
        if len(running) >= self.config.max_running:
            raise ToolError(
                f"{len(running)} commands of all callers are running, which is the limit (max_running); "
                "wait, or stop one of yours with {tool:stop_process}"
            )
        process = Process(
            # Unguessable, because all anonymous callers without a session have the same caller key.
            id=secrets.token_urlsafe(12),
            command=command,
            config=self.config,
            owner=owner,
            on_change=self._record_growth,
            merged=merged,
        )
        self._processes[process.id] = process
        return process

    def discard(self, process: Process) -> None:
        """Remove a command that could not be started."""
        self._processes.pop(process.id, None)

    def get(self, id: str, caller: str) -> Process:
        """Return a command by its id.

        Raises:
            ToolError: No command has this id, or it belongs to another caller.
        """
        self._evict()
        process = self._processes.get(id)
        # The same error in both cases: callers must not learn of each other's commands.
        if process is None or process.owner != caller:
            raise ToolError(f"expected the id of a process that is running or has ended recently, got {id[:40]!r}")
        return process

    def owned_by(self, caller: str) -> list[Process]:
        """Return all commands of one caller, newest first."""
        self._evict()
        return [process for process in reversed(self._processes.values()) if process.owner == caller]

    async def notify_subscribers(self, notify: Callable[[str], None]) -> None:
        """Notify subscribers of new output until cancelled."""
        while True:
            await self._growth.wait()
            self._growth = trio.Event()
            grown, self._grown = self._grown, set()
            for id in grown:
                notify(log_uri(id))
            # One notification then covers all output that arrives during the interval.
            await trio.sleep(_NOTIFY_INTERVAL)

    def _record_growth(self, process: Process) -> None:
        self._grown.add(process.id)
        self._growth.set()

    def _evict(self) -> None:
        """Remove ended commands that are older than ``keep_seconds``, and the oldest of those over ``max_kept``."""
        ended = [process for process in self._processes.values() if process.finished.is_set()]
        ended.sort(key=lambda process: process.ended_at or 0)
        oldest = time.time() - self.config.keep_seconds
        for number, process in enumerate(ended):
            if number < len(ended) - self.config.max_kept or (process.ended_at or 0) < oldest:
                del self._processes[process.id]


@asynccontextmanager
async def open_processes(config: Config, notify: Callable[[str], None]) -> AsyncIterator[Processes]:
    """Open the table and the nursery of background commands. Leaving the context ends all of them concurrently."""
    async with trio.open_nursery() as nursery:
        processes = Processes(config, nursery)
        nursery.start_soon(processes.notify_subscribers, notify)
        try:
            yield processes
        finally:
            nursery.cancel_scope.cancel()
