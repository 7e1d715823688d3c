"""The server's end of one child process: it starts the child, runs a job in it, stops the job, and ends the child.

``QueryProcessPool`` creates it and lends it to one call at a time. A child that does not stop on request is killed, so
a cancelled call returns within :data:`STOP_TIMEOUT`, unless its statement has already ended.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
from attrs import define, field

from mcptrio import ToolError
from mcptrio.errors import ConnectionClosed
from mcptrio.net import ChildProcess, start_process

from .config import Config
from .databases import DatabaseFile
from .frames import (
    LENGTH,
    JobDone,
    JobFailed,
    JobProgress,
    JobStopped,
    Message,
    Order,
    Ready,
    StatementEnded,
    Stop,
    decode_answer,
    decode_message,
    max_message_bytes,
    order_frame,
)
from .jobs import Job

__all__ = ["STOP_TIMEOUT", "JobState", "QueryProcess"]

STOP_TIMEOUT: Final = 0.25
"""Seconds for a child to react to a stop. SQLite reacts within a millisecond between its steps."""
_CLOSE_TIMEOUT: Final = 10.0
"""Seconds for COMMIT, ROLLBACK and closing, which cannot be interrupted."""
_START_TIMEOUT: Final = 20.0
"""Seconds for a child to start; the interpreter takes a tenth of a second on an idle machine."""
_CHUNK_BYTES: Final = 65536
_EXIT_TIMEOUT: Final = 2.0
"""Seconds to read the reason why a child has ended, and to kill it."""
_MAX_ERROR_CHARS: Final = 4000
"""Maximum length of the part of a child's standard error in which the reason is looked for."""

# For python -c, with the folder of this package and sys.path as arguments. This code bypasses the package's __init__,
# which imports the whole plugin and takes four times as long as the rest of the start.
_START: Final = """
import sys, types
sys.path[:] = sys.argv[2:]
package = types.ModuleType("mcptrio_sqlite")
package.__path__ = [sys.argv[1]]
sys.modules["mcptrio_sqlite"] = package
from mcptrio_sqlite.child import main
main()
"""

_FOLDER: Final = str(Path(__file__).parent)
_CHILD_VARIABLES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH", "SQLITE_TMPDIR", "TMPDIR", "LANG", "LC_ALL")


@define(eq=False)
class JobState:
    """The progress and the result of one job."""

    steps: int = 0
    rows: int = 0
    answer: list[Any] = field(factory=list)
    """The result in a list, or an empty list. A job that is being stopped may still succeed."""
    is_killed: bool = False
    """True if the child was killed or died before it reported a result."""
    has_statement_ended: bool = False
    """True if the child has reported that the statement has ended. Its changes may then have been committed."""


@define(eq=False)
class QueryProcess:
    """A child process that runs one job at a time."""

    config: Config
    _process: ChildProcess
    _stdin: trio.lowlevel.FdStream
    _stdout: trio.lowlevel.FdStream
    _stderr: trio.lowlevel.FdStream
    _buffer: bytearray = field(init=False, factory=bytearray)
    _number: int = field(init=False, default=0)
    # True until the child has started, while a job is running, and if the child cannot be used again.
    _is_unusable: bool = field(init=False, default=True)

    @classmethod
    async def start(cls, config: Config) -> QueryProcess:
        """Start a child and wait until it accepts jobs.

        Raises:
            ToolError: The child did not start; the message has the reason.
        """
        environment = {name: os.environ[name] for name in _CHILD_VARIABLES if name in os.environ}
        # Each further arena of malloc would reserve 64 MiB of the limited address space.
        environment["MALLOC_ARENA_MAX"] = "1"
        # A file in the working folder must not be imported: -P keeps that folder out of sys.path, and relative entries,
        # which depend on it, are left out.
        command = (sys.executable, "-P", "-c", _START, _FOLDER, *filter(os.path.isabs, sys.path))
        try:
            child = start_process(command, env=environment)
        except ConnectionClosed as error:
            raise ToolError(str(error)) from error
        streams = (trio.lowlevel.FdStream(each) for each in (child.stdin, child.stdout, child.stderr))
        process = cls(config, child, *streams)
        try:
            with trio.fail_after(_START_TIMEOUT):
                await process._send(order_frame(config))
                process._is_unusable = not isinstance(await process._receive(), Ready)
        except trio.TooSlowError as error:
            raise ToolError(f"the process for queries did not start within {_START_TIMEOUT:g} seconds") from error
        except ConnectionClosed as error:
            reason = "reason unknown"
            with trio.move_on_after(_EXIT_TIMEOUT, shield=True):
                reason = await process._exit_reason()
            raise ToolError(f"the process for queries did not start: {reason}") from error
        finally:
            if process._is_unusable:
                with trio.move_on_after(_EXIT_TIMEOUT, shield=True):
                    await process.end()
        return process

    @property
    def is_usable(self) -> bool:
        """True if the child can run another job."""
        return not self._is_unusable and self._process.returncode is None

    async def run(self, database: DatabaseFile, job: Job, state: JobState) -> None:
        """Run a job and store its result in ``state``, even if the call is cancelled just then.

        Raises:
            ToolError: The job failed.
        """
        # If this call is interrupted before the final message arrives, the child is in the middle of a job.
        self._number += 1
        self._is_unusable = True
        is_sent = False
        try:
            await self._send(order_frame(Order(number=self._number, database=database, job=job)))
            is_sent = True
            self._handle_result(await self._receive_result(state, None), job, state)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                # A child that has received half an order cannot read a Stop; the pool kills it.
                if is_sent:
                    await self._stop(job, state)
            state.is_killed = self._is_unusable
            raise
        except ConnectionClosed as error:
            state.is_killed = True
            reason = "reason unknown"
            with trio.move_on_after(_EXIT_TIMEOUT, shield=True):
                reason = await self._exit_reason()
            raise ToolError(f"the process of the query has ended: {reason}") from error

    def close(self) -> None:
        """Close the child's standard input. The child then exits at once, even during a job."""
        self._stdin.close()

    async def end(self) -> None:
        """Kill the child and wait until it is gone. Cannot be cancelled."""
        self._is_unusable = True
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()
        with trio.CancelScope(shield=True):
            await self._process.end(exit=0, terminate=0)

    async def _stop(self, job: Job, state: JobState) -> None:
        with trio.move_on_after(STOP_TIMEOUT) as scope:
            try:
                await self._send(order_frame(Stop(number=self._number)))
                self._handle_result(await self._receive_result(state, scope), job, state)
            except (ConnectionClosed, ToolError):
                pass  # the call was cancelled, so its caller does not receive this error

    async def _receive_result(self, state: JobState, scope: trio.CancelScope | None) -> Message:
        """Receive progress reports and return the final message.

        Args:
            scope: Deadline of a job that is being stopped. It is extended when the statement has ended.
        """
        if scope is not None and state.has_statement_ended:
            scope.deadline = trio.current_time() + _CLOSE_TIMEOUT
        while True:
            message = await self._receive()
            if isinstance(message, JobProgress):
                state.steps, state.rows = message.steps, message.rows
            elif isinstance(message, StatementEnded):
                state.has_statement_ended = True
                if scope is not None:
                    scope.deadline = trio.current_time() + _CLOSE_TIMEOUT
            else:
                return message

    def _handle_result(self, message: Message, job: Job, state: JobState) -> None:
        if isinstance(message, JobDone):
            try:
                state.answer.append(decode_answer(message, job.answer))
            except msgspec.MsgspecError as error:
                raise ConnectionClosed(f"expected an answer of another kind: {error}") from error
            self._is_unusable = False
        elif isinstance(message, JobFailed):
            self._is_unusable = message.is_unusable
            raise ToolError(message.message)
        elif isinstance(message, JobStopped):
            self._is_unusable = False

    async def _send(self, data: bytes) -> None:
        try:
            await self._stdin.send_all(data)
        except trio.BrokenResourceError as error:
            raise ConnectionClosed("the process has closed its input") from error

    async def _receive(self) -> Message:
        """Return the next message. May be cancelled and called again.

        Raises:
            ConnectionClosed: The child has ended, or its message is invalid.
        """
        while True:
            if len(self._buffer) >= LENGTH.size:
                (length,) = LENGTH.unpack_from(self._buffer)
                if length > max_message_bytes(self.config):
                    raise ConnectionClosed(f"the process announced a message of {length} bytes")
                # The buffer keeps a partial frame, so that a cancelled call loses nothing.
                end = LENGTH.size + length
                if len(self._buffer) >= end:
                    body = bytes(self._buffer[LENGTH.size : end])
                    del self._buffer[:end]
                    try:
                        return decode_message(body)
                    except msgspec.MsgspecError as error:
                        raise ConnectionClosed(f"the process sent an invalid message: {error}") from error
            piece = await self._stdout.receive_some(_CHUNK_BYTES)
            if not piece:
                raise ConnectionClosed("the process has ended")
            self._buffer += piece

    async def _exit_reason(self) -> str:
        """End the child, and return its signal, the last line of its standard error, or its exit code."""
        output = b""
        with trio.move_on_after(STOP_TIMEOUT):
            output = await self._stderr.receive_some(_CHUNK_BYTES)
        await self.end()
        code = self._process.returncode
        # The last line of a traceback has the exception.
        text = output.decode(errors="replace").strip()[-_MAX_ERROR_CHARS:].rpartition("\n")[2]
        if code is not None and code < 0:
            return f"{signal.Signals(-code).name} {text}".rstrip()
        return text or f"exit code {code}"
