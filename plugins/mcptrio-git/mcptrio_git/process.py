"""One run of a command: bounded in bytes, cancellable, and without remains.

``Work`` uses it for each git process. However a run ends (its end, enough output, a cancellation, a deadline), the
whole process group has ended before ``run`` returns: SIGTERM first, so that git removes its lock files, then SIGKILL
after ``TERMINATE_TIMEOUT``.

If the server itself dies, the system kills a child only if the server has forked it, which takes milliseconds. So that
is done only for a command that may wait for ever for another program. A reading command ends anyway: when it writes
into the closed pipe, or when it has used as much processor time as the call had time. A changing command should finish,
because a killed git leaves its locks.

``limit`` bytes of output are kept, and beyond them the command is ended. The last ``MESSAGES`` bytes of its standard
error are kept.
"""

from __future__ import annotations

import math
import os
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

import trio
from attrs import define, field, frozen

from mcptrio.errors import ConnectionClosed, ToolError
from mcptrio.net import ChildProcess, start_process

__all__ = ["MESSAGES", "TERMINATE_TIMEOUT", "GitCommand", "Listener", "Output", "run"]

TERMINATE_TIMEOUT = 3.0
"""Seconds between SIGTERM and SIGKILL: git needs milliseconds to remove its lock files, a hook perhaps more."""

MESSAGES = 16 * 1024
"""Bytes of standard error that are kept: its end, which has the reason."""

_CHUNK = 64 * 1024
_TICK = 1.0
_PIPE_CLOSE_TIMEOUT = 1.0
"""Seconds that a pipe may stay open after the command has ended; what still holds it is a child it has left behind."""


class Listener(Protocol):
    """Gets the progress of a run."""

    async def tick(self) -> None:
        """Called once a second."""
        ...

    async def on_stderr(self, message: bytes) -> None:
        """Called with each piece of standard error."""
        ...


@frozen(kw_only=True, eq=False, repr=False)
class GitCommand:
    """A command, and the bounds of its output."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: bytes = b""
    skip: int = 0
    """Bytes of output that are dropped first."""
    limit: int
    """Bytes of output that are kept then."""
    processor_time: float | None = None
    """Seconds of one processor, or as many of each, after which the system ends it."""
    dies_with_us: bool = True
    """The system kills it when the server dies."""


@frozen(kw_only=True, eq=False, repr=False)
class Output:
    """The result of a command."""

    code: int
    """The exit code; the negative number of a signal. Undefined if ``cut``."""
    stdout: bytes
    stderr: bytes
    cut: bool
    """There was more output than ``limit``, and the command was ended."""


async def run(command: GitCommand, listener: Listener) -> Output:
    """Run a command until it ends or its output exceeds the limit.

    Raises:
        ToolError: it cannot be started.
    """
    try:
        process = start_process(command.argv, env=command.env, cwd=command.cwd, dies_with_us=command.dies_with_us)
    except (ConnectionClosed, ValueError) as error:
        raise ToolError(str(error)) from error
    stdin, stdout, stderr = (
        trio.lowlevel.FdStream(descriptor) for descriptor in (process.stdin, process.stdout, process.stderr)
    )
    if command.processor_time is not None:
        _bound(process.pid, command.processor_time)
    collected = _Collected(skip=command.skip, limit=command.limit)
    messages = bytearray()

    async def read_messages() -> None:
        async for piece in stderr:
            messages.extend(piece)
            del messages[:-MESSAGES]
            await listener.on_stderr(bytes(piece))

    try:
        async with trio.open_nursery() as nursery:
            readers = _Readers(left=2)
            stopped = trio.Event()
            nursery.start_soon(readers.run, lambda: collected.read(stdout, stopped))
            nursery.start_soon(readers.run, read_messages)
            nursery.start_soon(_feed, stdin, command.stdin)
            nursery.start_soon(_tick, listener)
            nursery.start_soon(_wait, process, stopped)
            await stopped.wait()
            if not collected.cut:
                with trio.move_on_after(_PIPE_CLOSE_TIMEOUT):
                    await readers.done.wait()
            nursery.cancel_scope.cancel()
    finally:
        for stream in (stdin, stdout, stderr):
            stream.close()
        with trio.CancelScope(shield=True):  # bounded: GRACE, and KILLED of child_process
            await process.end(exit=0, terminate=TERMINATE_TIMEOUT)
    code = process.returncode
    return Output(
        code=-1 if code is None else code,
        stdout=bytes(collected.kept),
        stderr=bytes(messages),
        cut=collected.cut,
    )


@define(eq=False, repr=False)
class _Collected:
    """Standard output, as much as is wanted."""

    skip: int
    limit: int
    kept: bytearray = field(init=False, factory=bytearray)
    cut: bool = field(init=False, default=False)

    async def read(self, stream: trio.lowlevel.FdStream, stopped: trio.Event) -> None:
        left = self.skip
        while piece := await stream.receive_some(_CHUNK):
            if left >= len(piece):
                left -= len(piece)
                continue
            self.kept.extend(memoryview(piece)[left:])
            left = 0
            if len(self.kept) > self.limit:
                del self.kept[self.limit :]
                self.cut = True
                stopped.set()
                return


@define(eq=False, repr=False)
class _Readers:
    """How many pipes are still open."""

    left: int
    done: trio.Event = field(init=False, factory=trio.Event)

    async def run(self, read: Callable[[], Awaitable[None]]) -> None:
        await read()
        self.left -= 1
        if not self.left:
            self.done.set()


def _bound(pid: int, seconds: float) -> None:
    """Limit the processor time of a child and of its future children (Linux)."""
    if sys.platform == "linux":
        limit = math.ceil(seconds) * (os.cpu_count() or 1)
        with suppress(OSError, ValueError):  # it has ended already, or its own limit is lower
            resource.prlimit(pid, resource.RLIMIT_CPU, (limit, limit + 1))


async def _feed(stream: trio.lowlevel.FdStream, data: bytes) -> None:
    try:
        await stream.send_all(data)
    except trio.BrokenResourceError:
        pass  # it does not want to read on; its exit code says whether that is well
    stream.close()


async def _tick(listener: Listener) -> None:
    while True:
        await trio.sleep(_TICK)
        await listener.tick()


async def _wait(process: ChildProcess, stopped: trio.Event) -> None:
    await process.wait()
    stopped.set()
