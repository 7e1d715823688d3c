"""Runs a command with limited output. It can be cancelled, and leaves no processes behind.

``GitAccess`` uses it for each git process. In all cases (the command exits, has too much output, or is cancelled), the
whole process group has ended before ``run`` returns: SIGTERM first, so that git removes its lock files, then SIGKILL
after ``TERMINATE_TIMEOUT``.

The kernel can kill a child when the server dies, but only if the server has forked it, which takes milliseconds. This
is used only for commands that may wait forever for another program. A command that reads ends without it: when it
writes to the closed pipe, or when it has used as much processor time as the call had time. A command that changes
something should finish, because a killed git leaves its lock files.
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

__all__ = ["MAX_STDERR_BYTES", "TERMINATE_TIMEOUT", "GitCommand", "Listener", "Output", "run"]

TERMINATE_TIMEOUT = 3.0
"""Seconds between SIGTERM and SIGKILL: git needs milliseconds to remove its lock files, a hook perhaps more."""

MAX_STDERR_BYTES = 16 * 1024
"""Maximum number of bytes of standard error that are kept. The end is kept, because it has the reason of a failure."""

_CHUNK_BYTES = 64 * 1024
_TICK_SECONDS = 1.0
_PIPE_CLOSE_TIMEOUT = 1.0
"""Seconds to wait for the end of the pipes after the command has exited. A child that it left behind may hold them."""


class Listener(Protocol):
    """Receives the progress of a command."""

    async def tick(self) -> None:
        """Called once a second."""
        ...

    async def on_stderr(self, message: bytes) -> None:
        """Called with each piece of standard error."""
        ...


@frozen(kw_only=True, eq=False, repr=False)
class GitCommand:
    """A command, and the limits of its output."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: bytes = b""
    skip: int = 0
    """Number of bytes of output that are dropped first."""
    limit: int
    """Maximum number of bytes of output after those. A command with more is ended."""
    processor_time: float | None = None
    """Seconds of processor time, multiplied by the number of processors, after which the kernel ends the command."""
    dies_with_us: bool = True
    """True if the kernel kills the command when the server dies."""


@frozen(kw_only=True, eq=False, repr=False)
class Output:
    """The result of a command."""

    code: int
    """The exit code, or the negative number of a signal. Undefined if ``cut``."""
    stdout: bytes
    stderr: bytes
    cut: bool
    """True if there was more output than ``limit``, so that the command was ended."""


async def run(command: GitCommand, listener: Listener) -> Output:
    """Run a command until it ends or its output exceeds the limit.

    Raises:
        ToolError: The command cannot be started.
    """
    try:
        process = start_process(command.argv, env=command.env, cwd=command.cwd, dies_with_us=command.dies_with_us)
    except (ConnectionClosed, ValueError) as error:
        raise ToolError(str(error)) from error
    stdin, stdout, stderr = (
        trio.lowlevel.FdStream(descriptor) for descriptor in (process.stdin, process.stdout, process.stderr)
    )
    if command.processor_time is not None:
        _limit_processor_time(process.pid, command.processor_time)
    collected = _StdoutCollector(skip=command.skip, limit=command.limit)
    messages = bytearray()

    async def read_messages() -> None:
        async for piece in stderr:
            messages.extend(piece)
            del messages[:-MAX_STDERR_BYTES]
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
        with trio.CancelScope(shield=True):  # end() has timeouts of its own
            await process.end(exit=0, terminate=TERMINATE_TIMEOUT)
    code = process.returncode
    return Output(
        code=-1 if code is None else code,
        stdout=bytes(collected.kept),
        stderr=bytes(messages),
        cut=collected.cut,
    )


@define(eq=False, repr=False)
class _StdoutCollector:
    """Collects standard output up to a limit."""

    skip: int
    limit: int
    kept: bytearray = field(init=False, factory=bytearray)
    cut: bool = field(init=False, default=False)

    async def read(self, stream: trio.lowlevel.FdStream, stopped: trio.Event) -> None:
        left = self.skip
        while piece := await stream.receive_some(_CHUNK_BYTES):
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
    """The number of pipes that are still open."""

    left: int
    done: trio.Event = field(init=False, factory=trio.Event)

    async def run(self, read: Callable[[], Awaitable[None]]) -> None:
        await read()
        self.left -= 1
        if not self.left:
            self.done.set()


def _limit_processor_time(pid: int, seconds: float) -> None:
    """Limit the processor time of a child and of its future children (Linux)."""
    if sys.platform == "linux":
        limit = math.ceil(seconds) * (os.cpu_count() or 1)
        with suppress(OSError, ValueError):  # the child has already ended, or its limit is lower
            resource.prlimit(pid, resource.RLIMIT_CPU, (limit, limit + 1))


async def _feed(stream: trio.lowlevel.FdStream, data: bytes) -> None:
    try:
        await stream.send_all(data)
    except trio.BrokenResourceError:
        pass  # the command stopped reading; its exit code shows whether it failed
    stream.close()


async def _tick(listener: Listener) -> None:
    while True:
        await trio.sleep(_TICK_SECONDS)
        await listener.tick()


async def _wait(process: ChildProcess, stopped: trio.Event) -> None:
    await process.wait()
    stopped.set()
