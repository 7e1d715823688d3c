"""Starts a server as a child process, and provides the message channel over its standard streams.

The client uses it for commands. :mod:`mcptrio.transports.child_process` manages the process, and
:mod:`mcptrio.transports.child_stderr` reads its standard error. When the context is left for any reason, the whole
process group is ended within the limits of :class:`ChildTimeouts`.

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
from mcptrio.ground.nurseries import unwrap_single_exceptions
from mcptrio.ground.stderr_tail import append_stderr
from mcptrio.protocol.limits import CLIENT_DEFAULT, MessageLimits
from mcptrio.protocol.messages import Incoming, Message
from mcptrio.transports.child_process import KILL_TIMEOUT, ChildProcess, program_name, signal_name, start_process
from mcptrio.transports.child_stderr import ChildStderr, Stderr
from mcptrio.transports.exclusive_streams import open_exclusive_pipe_writer
from mcptrio.transports.fd_streams import ByteReader, open_reader
from mcptrio.transports.line_channel import LineChannel
from mcptrio.transports.lines import LineFramer

__all__ = ["SAFE", "SERVER_LOG", "ChildChannel", "ChildTimeouts", "open_child", "safe_environment"]

_log = getLogger("mcptrio.transports.child")

SERVER_LOG = getLogger("mcptrio.server_stderr")
"""The default logger for lines of a server's standard error."""

SAFE = (
    (
        "APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES"
        " SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR"
    )
    if sys.platform == "win32"
    else "HOME LANG LANGUAGE LOGNAME PATH SHELL TERM TMPDIR TZ USER"
).split()
"""Environment variables that every server inherits, in addition to ``LC_*``: the user, locations of programs and files,
and the language. The official SDKs have slightly fewer."""

EXIT_CODE_TIMEOUT = 2.0
"""Seconds to wait for the exit code after a stream has ended, because interpreters take time to exit."""
STDERR_TIMEOUT = 0.2
"""Seconds to wait for the last lines of standard error after the process has exited."""


@frozen(kw_only=True)
class ChildTimeouts:
    """Timeouts of a child process in seconds. Only ``write`` may be infinite.

    Args:
        exit: The time for the server to exit after its standard input was closed.
        terminate: The time for the process group to exit after SIGTERM; then SIGKILL follows.
        write: The time without progress in a write after which the server is considered disconnected.
    """

    exit: float = field(default=2.0, validator=[gt(0), lt(inf)])
    terminate: float = field(default=2.0, validator=[gt(0), lt(inf)])
    write: float = field(default=30.0, validator=gt(0))


def safe_environment() -> dict[str, str]:
    """Return the variables of this process's environment that every server inherits. See :data:`SAFE`."""
    return {
        name: value
        for name, value in os.environ.items()
        # A value that starts with "()" is an exported bash function, which is code.
        if (name in SAFE or name.startswith("LC_")) and not value.startswith("()")
    }


class ChildChannel(LineChannel):
    """A message channel to a child process. Made by :func:`open_child`.

    Args:
        name: Name of the program without its arguments, which may be secret.
    """

    def __init__(
        self, process: ChildProcess, stderr: ChildStderr, *, name: str, limits: MessageLimits, timeouts: ChildTimeouts
    ) -> None:
        super().__init__(
            open_reader(process.stdout),
            open_exclusive_pipe_writer(process.stdin),
            LineFramer(limits, answers=True),
            name=name,
            reads="the server's standard output",
            writes="the server's standard input",
            write_timeout=timeouts.write,
        )
        self._process = process
        self._stderr = stderr
        self._timeouts = timeouts
        self._unsent: str | None = None
        """The error of a failed send."""
        self._closed: str | None = None
        """The reason why the channel is unusable, set when it is closed here."""
        self._closing = trio.Lock()

    @property
    def pid(self) -> int:
        """The process id, which is also the id of the process group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended the process; ``None`` while it runs."""
        return self._process.returncode

    @property
    def last_stderr_lines(self) -> tuple[str, ...]:
        """The last lines of the server's standard error: at most 64, of 2,000 bytes each."""
        return self._stderr.last_lines

    async def wait(self) -> int:
        """Wait for the process to exit, and return its exit code."""
        return await self._process.wait()

    async def receive(self) -> list[Incoming]:
        """Receive everything that has arrived, at least one item. Other output of the server becomes Malformed items.

        Raises:
            trio.EndOfChannel: The server has closed its standard output or exited; :meth:`closed_reason` has the
                details.
            ConnectionClosed: The channel was closed here.
        """
        try:
            return await super().receive()
        except ConnectionClosed as error:
            raise ConnectionClosed(await self.closed_reason()) from error

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all messages. See :meth:`LineChannel.send`.

        Raises:
            ConnectionClosed: The server has exited, has closed its standard input or does not read; or the channel was
                closed here. The message has the reason and the exit code.
        """
        try:
            await super().send(messages)
        except ConnectionClosed as error:
            self._unsent = str(error)
            raise ConnectionClosed(await self.closed_reason()) from error

    async def closed_reason(self) -> str:
        """Return the reason why the channel is unusable, on one line.

        It contains the exit code, or the signal that ended the server, and the last lines of standard error. If
        a stream has ended but the process has not, this waits up to :data:`EXIT_CODE_TIMEOUT` seconds for the exit.
        """
        if self._closed is not None:
            return self._closed
        if self._ended or self._unsent is not None:
            with trio.move_on_after(EXIT_CODE_TIMEOUT):
                await self._process.wait()
            with trio.move_on_after(STDERR_TIMEOUT):
                await self._stderr.ended.wait()
        return self._state()

    async def aclose(self) -> None:
        """End the server and its process group: close its standard input, wait, SIGTERM, wait, SIGKILL.

        Pending calls raise ConnectionClosed. This cannot be cancelled. It usually takes milliseconds, and at most the
        timeouts.
        """
        times = self._timeouts
        # The sum of the timeouts bounds the shield. The wait after SIGKILL needs KILL_TIMEOUT; twice that leaves room.
        with trio.move_on_after(times.exit + times.terminate + 2 * KILL_TIMEOUT + STDERR_TIMEOUT, shield=True):
            async with self._closing:
                if self._closed is None:
                    await self._end()
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _state(self) -> str:
        code = self.returncode
        if code is not None:
            return append_stderr(f"the server {_describe_exit(code)}", self.last_stderr_lines)
        if self._ended:
            return "the server closed its standard output but is still running"
        return self._unsent or "the server is running"

    async def _end(self) -> None:
        # Recorded before the server is ended here, because the exit code would then be the result of that.
        in_use = not self._ended and self._unsent is None and self.returncode is None
        self._closed = "the channel was closed" if in_use else self._state()
        output = self._duplicate_output()
        self.close()
        async with trio.open_nursery() as nursery:
            if output is not None:
                nursery.start_soon(_drain, output)
            if not await self._process.end(exit=self._timeouts.exit, terminate=self._timeouts.terminate):
                _log.warning("%s: still running after SIGKILL: pid=%d", self.name, self.pid)
            nursery.cancel_scope.cancel()
        with trio.move_on_after(STDERR_TIMEOUT):
            await self._stderr.ended.wait()

    def _duplicate_output(self) -> ByteReader | None:
        try:
            # The output is read until the server has exited, because a server whose output blocks cannot exit.
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
    """Start a server as a child process inside the context, and end it afterwards.

    The child inherits only the variables of :data:`SAFE`, because the environment may contain credentials.

    Args:
        command: The program and its arguments. No shell is involved.
        env: Variables that are added to the inherited ones or replace them.
        inherit_env: Inherit the whole environment.
        cwd: Working directory; by default that of this process.
        stderr: The destination of the lines of standard error; by default, the logger ``mcptrio.server_stderr`` at
            level INFO. ``last_stderr_lines`` has the last ones in any case.
        limits: Limits of one message.
        timeouts: Timeouts for exiting and for writing.

    Raises:
        ConnectionClosed: The process cannot be started; the message has the reason.
        ValueError: The command is empty or a string.
    """
    if isinstance(command, str) or not command:
        raise ValueError(f"command: expected a program and its arguments, each a string, got {command!r}")
    await trio.lowlevel.checkpoint()
    environment = {**(os.environ if inherit_env else safe_environment()), **(env or {})}
    process = start_process(command, env=environment, cwd=cwd)
    name = program_name(command)
    output = ChildStderr(process.stderr, stderr, name=name)
    channel = ChildChannel(process, output, name=name, limits=limits, timeouts=timeouts or ChildTimeouts())
    # The reading task raises nothing, so an exception is the caller's.
    with unwrap_single_exceptions():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.listen)
            try:
                yield channel
            finally:
                try:
                    await channel.aclose()
                finally:
                    output.close()


async def _drain(reader: ByteReader) -> None:
    try:
        with suppress(OSError, ConnectionClosed):
            while await reader.read():
                pass
    finally:
        reader.close()


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal_name(-code)}"
