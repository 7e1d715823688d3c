"""A server started as a child process, and the message channel over its standard streams.

Opened by the client for a command. The process is one thing (:mod:`mcptrio.transports.child_process`), what it writes
to standard error another (:mod:`mcptrio.transports.child_stderr`); here they become a channel.
The one rule: when the context is left, however it is left, nothing of the process group is left either, and that takes
no longer than :class:`ChildTimeouts` says.

Source: MCP 2026-07-28, basic/transports/stdio.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from logging import getLogger
from math import inf
from pathlib import Path

import trio
from attrs import field, frozen
from attrs.validators import gt, lt

from mcptrio.errors import ConnectionClosed
from mcptrio.ground.last_words import with_last_words
from mcptrio.protocol.limits import CLIENT_DEFAULT, MessageLimits
from mcptrio.protocol.messages import Incoming, Message
from mcptrio.transports.child_process import KILLED, ChildProcess, program_name, signal_name, start_process
from mcptrio.transports.child_stderr import ChildStderr, Stderr
from mcptrio.transports.exclusive_pipe import open_exclusive_pipe_writer
from mcptrio.transports.fd_streams import ByteReader, open_reader
from mcptrio.transports.line_channel import LineChannel
from mcptrio.transports.lines import LineFramer

__all__ = ["SAFE", "SERVER_LOG", "ChildChannel", "ChildTimeouts", "open_child", "safe_environment"]

_log = getLogger("mcptrio.transports.child")

SERVER_LOG = getLogger("mcptrio.server_stderr")
"""Where standard error goes by default."""

SAFE = (
    (
        "APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES"
        " SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR"
    )
    if sys.platform == "win32"
    else "HOME LANG LANGUAGE LOGNAME PATH SHELL TERM TMPDIR TZ USER"
).split()
"""What every server gets of our environment: who the user is, where programs and files are, and how to write; beside
these each ``LC_`` variable. As in the official SDKs, and a little more of the same kind."""

EXITING = 2.0
"""Seconds after the end of a stream in which the exit code may still come: interpreters take their time to end."""
SETTLE = 0.2
"""Seconds after that in which the last words may still come."""


@frozen(kw_only=True)
class ChildTimeouts:
    """Seconds, none of them without bound but ``write``.

    Args:
        exit: for the server to end when its standard input is closed.
        terminate: for what is left of it after SIGTERM; then comes SIGKILL.
        write: without any progress, after which a server that does not read counts as gone.
    """

    exit: float = field(default=2.0, validator=[gt(0), lt(inf)])
    terminate: float = field(default=2.0, validator=[gt(0), lt(inf)])
    write: float = field(default=30.0, validator=gt(0))


def safe_environment() -> dict[str, str]:
    """The part of our environment that every server gets. See :data:`SAFE`."""
    return {
        name: value
        for name, value in os.environ.items()
        # A value that begins so is a function of bash's; those run code.
        if (name in SAFE or name.startswith("LC_")) and not value.startswith("()")
    }


class ChildChannel:
    """Messages to and from a child process. Made by :func:`open_child`.

    Attributes:
        name: the name of the program, without its arguments.
    """

    def __init__(
        self, process: ChildProcess, stderr: ChildStderr, *, name: str, limits: MessageLimits, timeouts: ChildTimeouts
    ) -> None:
        self.name = name
        self._process = process
        self._stderr = stderr
        self._timeouts = timeouts
        self._lines = LineChannel(
            open_reader(process.stdout),
            open_exclusive_pipe_writer(process.stdin),
            LineFramer(limits, answers=True),
            name=name,
            reads="the server's standard output",
            writes="the server's standard input",
            write_timeout=timeouts.write,
        )
        self._ended = False
        """Whether its standard output is at its end."""
        self._unsent: str | None = None
        """Why a send has failed."""
        self._closed: str | None = None
        """Why it is closed, once it is closed here."""
        self._closing = trio.Lock()

    @property
    def pid(self) -> int:
        """The number of the process, and of its group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended it; ``None`` while it lives."""
        return self._process.returncode

    @property
    def last_words(self) -> tuple[str, ...]:
        """The last lines of its standard error, at most 64 of 2,000 bytes."""
        return self._stderr.last_words

    async def wait(self) -> int:
        """Wait until the process has ended, and return its exit code."""
        return await self._process.wait()

    async def receive(self) -> list[Incoming]:
        """Everything that has arrived, at least one item. What the server prints beside messages is Malformed.

        Raises:
            trio.EndOfChannel: the server has closed its standard output, or ended. :meth:`closed_reason` knows more.
            ConnectionClosed: the channel was closed here.
        """
        try:
            return await self._lines.receive()
        except trio.EndOfChannel:
            self._ended = True
            raise
        except ConnectionClosed as error:
            raise ConnectionClosed(await self.closed_reason()) from error

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all of it. Cancelled after the beginning, it still finishes, for at most two seconds.

        Raises:
            ConnectionClosed: the server has ended, has closed its standard input or does not read; or the channel was
                closed here. The message says which, and how the server ended.
        """
        try:
            await self._lines.send(messages)
        except ConnectionClosed as error:
            self._unsent = str(error)
            raise ConnectionClosed(await self.closed_reason()) from error

    def send_now(self, message: Message) -> bool:
        """See :class:`mcptrio.abc.SynchronousChannel`."""
        return self._lines.send_now(message)

    async def closed_reason(self) -> str:
        """Why nothing more can be received or sent, on one line: how the server ended, and what it said last.

        Waits for the exit code, up to :data:`EXITING` seconds, where a stream has ended and the process not yet.
        """
        if self._closed is not None:
            return self._closed
        if self._ended or self._unsent is not None:
            with trio.move_on_after(EXITING):
                await self._process.wait()
            with trio.move_on_after(SETTLE):
                await self._stderr.ended.wait()
        return self._state()

    async def aclose(self) -> None:
        """End the server: close its standard input, wait, SIGTERM, wait, SIGKILL. Nothing of it is left.

        Whoever is in ``receive`` or ``send`` gets ConnectionClosed. Cannot be cancelled; takes as long as the timeouts
        say, mostly milliseconds.
        """
        times = self._timeouts
        with trio.move_on_after(times.exit + times.terminate + 2 * KILLED + SETTLE, shield=True):
            async with self._closing:
                if self._closed is None:
                    await self._end()
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _state(self) -> str:
        code = self.returncode
        if code is not None:
            return with_last_words(f"the server {_ending(code)}", self.last_words)
        if self._ended:
            return "the server closed its standard output and lives on"
        return self._unsent or "the server is running"

    async def _end(self) -> None:
        in_use = not self._ended and self._unsent is None and self.returncode is None
        self._closed = "the channel was closed" if in_use else self._state()
        output = self._duplicate_output()
        self._lines.close()
        async with trio.open_nursery() as nursery:
            if output is not None:
                nursery.start_soon(_drain, output)
            if not await self._process.end(exit=self._timeouts.exit, terminate=self._timeouts.terminate):
                _log.warning("%s: process %d is still there after SIGKILL", self.name, self.pid)
            nursery.cancel_scope.cancel()
        with trio.move_on_after(SETTLE):
            await self._stderr.ended.wait()

    def _duplicate_output(self) -> ByteReader | None:
        """To read on while the server ends: one that cannot get rid of what it has to say would not end."""
        try:
            return open_reader(os.dup(self._process.stdout))
        except OSError:
            return None


@asynccontextmanager
async def open_child(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = False,
    cwd: Path | str | None = None,
    stderr: Stderr = SERVER_LOG,
    limits: MessageLimits = CLIENT_DEFAULT,
    timeouts: ChildTimeouts | None = None,
) -> AsyncIterator[ChildChannel]:
    """Start a server, and end it on leaving.

    It does not get our environment, where the keys to other things may be, but :data:`SAFE` and ``env``.

    Args:
        command: the program and its arguments. No shell is involved.
        env: variables for the server beside, or instead of, what it inherits.
        inherit_env: whether it inherits the whole environment.
        cwd: where it runs; by default where we do.
        stderr: where the lines of its standard error go, beside ``last_words``; by default into the log
            ``mcptrio.server_stderr``, at level INFO.
        timeouts: how long it may take to end, and to read.

    Raises:
        ConnectionClosed: it cannot be started; the message says why.
        ValueError: the command is empty, or a string.
    """
    if isinstance(command, str) or not command:
        raise ValueError(f"command: expected a program and its arguments, each a string, got {command!r}")
    await trio.lowlevel.checkpoint()
    environment = {**(os.environ if inherit_env else safe_environment()), **(env or {})}
    process = start_process(command, env=environment, cwd=cwd)
    name = program_name(command)
    said = ChildStderr(process.stderr, stderr, name=name)
    channel = ChildChannel(process, said, name=name, limits=limits, timeouts=timeouts or ChildTimeouts())
    failed: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(said.listen)
            try:
                yield channel
            finally:
                try:
                    await channel.aclose()
                finally:
                    said.close()
    except BaseExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        # The task in here raises nothing of its own: what the caller's block raised goes on as it is.
        failed = group.exceptions[0]
    if failed is not None:
        try:
            raise failed
        finally:
            del failed


async def _drain(reader: ByteReader) -> None:
    try:
        with suppress(OSError, ConnectionClosed):
            while await reader.read():
                pass
    finally:
        reader.close()


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal_name(-code)}"
