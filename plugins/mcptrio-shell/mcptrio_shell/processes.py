"""The commands that run, and those that have ended and whose output is still kept.

Opened by the plugin's lifespan, used by the tools. The one rule: a command that nobody waits for is a task in the
lifespan's nursery, so it ends with the server; and what is kept of those that have ended is bounded in number, bytes
and age, the oldest going first.
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

_NOTIFY = 0.5
"""Seconds between two notifications that the output of a command has grown."""


def log_uri(id: str) -> str:
    """The resource that is a command's output."""
    return f"process://{id}/log"


@define
class Processes:
    """Made by :func:`open_processes`."""

    config: Config
    _nursery: trio.Nursery
    _known: dict[str, Process] = field(init=False, factory=dict)
    """In the order of their start."""
    _grown: set[str] = field(init=False, factory=set)
    _growth: trio.Event = field(init=False, factory=trio.Event)

    async def start(self, process: Process, *, seconds: float, stdin: bytes | None) -> None:
        """Run a command in the background; returns when it has started. Raises as :meth:`Process.run`."""
        await self._nursery.start(partial(process.run, seconds=seconds, stdin=stdin, keep_input=True))

    def admit(self, command: PermittedCommand, owner: str, *, merged: bool) -> Process:
        """A command that is about to be started.

        Args:
            owner: whose it is: ``ctx.caller``.

        Raises:
            ToolError: too many run already.
        """
        self._forget()
        running = [process.owner for process in self._known.values() if not process.finished.is_set()]
        own = self.config.max_running_per_caller
        if running.count(owner) >= own:
            raise ToolError(
                f"expected at most {own} commands of yours at the same time, and so many run; "
                "wait for one, or stop one with {tool:stop_process}"
            )
        if len(running) >= self.config.max_running:
            raise ToolError(
                f"expected at most {self.config.max_running} commands at the same time, and so many run, of all "
                "callers; wait, or stop one of yours with {tool:stop_process}"
            )
        process = Process(
            id=secrets.token_urlsafe(12),
            command=command,
            config=self.config,
            owner=owner,
            changed=self._changed,
            merged=merged,
        )
        self._known[process.id] = process
        return process

    def dismiss(self, process: Process) -> None:
        """Forget a command that could not be started."""
        self._known.pop(process.id, None)

    def get(self, id: str, asker: str) -> Process:
        """A command by its id.

        Raises:
            ToolError: there is none, or it is somebody else's.
        """
        self._forget()
        process = self._known.get(id)
        if process is None or process.owner != asker:
            raise ToolError(f"expected the id of a process that runs, or ended not long ago, got {id[:40]!r}")
        return process

    def of(self, asker: str) -> list[Process]:
        """Everything of one caller, the newest first."""
        self._forget()
        return [process for process in reversed(self._known.values()) if process.owner == asker]

    async def tell(self, notify: Callable[[str], None]) -> None:
        """Tell subscribers of output that has grown, until cancelled."""
        while True:
            await self._growth.wait()
            self._growth = trio.Event()
            grown, self._grown = self._grown, set()
            for id in grown:
                notify(log_uri(id))
            await trio.sleep(_NOTIFY)

    def _changed(self, process: Process) -> None:
        self._grown.add(process.id)
        self._growth.set()

    def _forget(self) -> None:
        """Drop what has been kept long enough, and what is too much."""
        ended = [process for process in self._known.values() if process.finished.is_set()]
        ended.sort(key=lambda process: process.ended_at or 0)
        oldest = time.time() - self.config.keep_seconds
        for number, process in enumerate(ended):
            if number < len(ended) - self.config.max_kept or (process.ended_at or 0) < oldest:
                del self._known[process.id]


@asynccontextmanager
async def open_processes(config: Config, notify: Callable[[str], None]) -> AsyncIterator[Processes]:
    """The table, and the nursery of the commands that run in the background. Leaving it ends them, all at once."""
    async with trio.open_nursery() as nursery:
        processes = Processes(config, nursery)
        nursery.start_soon(processes.tell, notify)
        try:
            yield processes
        finally:
            nursery.cancel_scope.cancel()
