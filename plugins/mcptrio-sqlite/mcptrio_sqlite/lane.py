"""One child process as the server sees it: start, run a job, stop, end.

``LanePool`` creates lanes; a lane is used by one call at a time. A child that does not stop on request is killed, so
that a cancelled call returns within :data:`STOP_TIMEOUT`.
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
    CallDone,
    CallProgress,
    Failed,
    Message,
    Order,
    Ready,
    Stop,
    Turn,
    Undone,
    answer_of,
    largest,
    message_of,
    order_frame,
)
from .jobs import Job

__all__ = ["STOP_TIMEOUT", "Lane", "Tally"]

STOP_TIMEOUT: Final = 0.25
"""Seconds for a child to react to a stop. SQLite reacts within a millisecond between its steps."""
_CLOSE_TIMEOUT: Final = 10.0
"""Seconds for COMMIT, ROLLBACK and closing, which cannot be interrupted."""
_START_TIMEOUT: Final = 20.0
"""Seconds for a child to start; the interpreter takes a tenth of a second on an idle machine."""
_CHUNK: Final = 65536
_EXIT_TIMEOUT: Final = 2.0
"""Seconds to find out why a child has ended."""
_MAX_ERROR_CHARS: Final = 4000
"""Characters of a child's last output that are kept."""

# For python -c, with the folder of this package and sys.path as arguments. It bypasses the package's __init__, which
# imports the whole plugin: that takes four times as long as the rest.
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
_PASSED_ON: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH", "SQLITE_TMPDIR", "TMPDIR", "LANG", "LC_ALL")


@define(eq=False)
class Tally:
    """The progress and the result of a call."""

    steps: int = 0
    rows: int = 0
    answer: list[Any] = field(factory=list)
    """Contains the result once the job is done, which may be before it could be stopped."""
    is_killed: bool = False
    """True if the child was killed or died before it reported a result."""
    has_turned: bool = False
    """True if its statement had ended by then, so that the changes may have been committed."""


@define(eq=False)
class Lane:
    """A child process that runs one job at a time."""

    config: Config
    _process: ChildProcess
    _stdin: trio.lowlevel.FdStream
    _stdout: trio.lowlevel.FdStream
    _stderr: trio.lowlevel.FdStream
    _buffer: bytearray = field(init=False, factory=bytearray)
    _number: int = field(init=False, default=0)
    # True while a job is running, and when the child cannot be used again.
    _is_spent: bool = field(init=False, default=True)

    @classmethod
    async def start(cls, config: Config) -> Lane:
        """Start a child and wait until it accepts jobs.

        Raises:
            ToolError: The child did not start; the message has the reason.
        """
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # Each further arena of malloc would reserve 64 MiB of the limited address space.
        environment["MALLOC_ARENA_MAX"] = "1"
        # -P keeps the working folder out of sys.path, where a file named like a module could be.
        # Relative entries of sys.path would depend on the working folder.
        command = (sys.executable, "-P", "-c", _START, _FOLDER, *filter(os.path.isabs, sys.path))
        try:
            process = start_process(command, env=environment)
        except ConnectionClosed as error:
            raise ToolError(str(error)) from error
        streams = (trio.lowlevel.FdStream(each) for each in (process.stdin, process.stdout, process.stderr))
        lane = cls(config, process, *streams)
        try:
            with trio.fail_after(_START_TIMEOUT):
                await lane._send(order_frame(config))
                lane._is_spent = not isinstance(await lane._receive(), Ready)
        except trio.TooSlowError as error:
            raise ToolError(f"the process for queries did not start within {_START_TIMEOUT:g} seconds") from error
        except ConnectionClosed as error:
            reason = "reason unknown"
            with trio.move_on_after(_EXIT_TIMEOUT, shield=True):
                reason = await lane._last_words()
            raise ToolError(f"the process for queries did not start: {reason}") from error
        finally:
            if lane._is_spent:
                with trio.move_on_after(_EXIT_TIMEOUT, shield=True):
                    await lane.end()
        return lane

    @property
    def is_usable(self) -> bool:
        """True if the child can run another job."""
        return not self._is_spent and self._process.returncode is None

    async def run(self, database: DatabaseFile, job: Job, tally: Tally) -> None:
        """Run a job and store its result in ``tally``, even if the call is cancelled just then.

        Raises:
            ToolError: The job failed.
        """
        # Spent until the final message arrives: an interrupted child is in the middle of a job.
        self._number += 1
        self._is_spent = True
        is_sent = False
        try:
            await self._send(order_frame(Order(number=self._number, database=database, job=job)))
            is_sent = True
            self._handle_result(await self._receive_result(tally, None), job, tally)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                # A child that received half an order is not asked to stop but killed.
                if is_sent:
                    await self._stop(job, tally)
            tally.is_killed = self._is_spent
            raise
        except ConnectionClosed as error:
            tally.is_killed = True
            reason = "reason unknown"
            with trio.move_on_after(_EXIT_TIMEOUT, shield=True):
                reason = await self._last_words()
            raise ToolError(f"the process that ran this has ended: {reason}") from error

    def close(self) -> None:
        """Close its standard input; the child then exits at once, even during a job."""
        self._stdin.close()

    async def end(self) -> None:
        """Kill the child and wait until it is gone. Cannot be cancelled."""
        self._is_spent = True
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()
        with trio.CancelScope(shield=True):
            await self._process.end(exit=0, terminate=0)

    async def _stop(self, job: Job, tally: Tally) -> None:
        with trio.move_on_after(STOP_TIMEOUT) as scope:
            try:
                await self._send(order_frame(Stop(number=self._number)))
                self._handle_result(await self._receive_result(tally, scope), job, tally)
            except (ConnectionClosed, ToolError):
                pass  # the call was cancelled, so its failure does not matter

    async def _receive_result(self, tally: Tally, scope: trio.CancelScope | None) -> Message:
        """Receive progress reports and return the final message.

        Args:
            scope: Deadline of a job that is being stopped. It is extended once the statement has ended.
        """
        if scope is not None and tally.has_turned:
            scope.deadline = trio.current_time() + _CLOSE_TIMEOUT
        while True:
            message = await self._receive()
            if isinstance(message, CallProgress):
                tally.steps, tally.rows = message.steps, message.rows
            elif isinstance(message, Turn):
                tally.has_turned = True
                if scope is not None:
                    scope.deadline = trio.current_time() + _CLOSE_TIMEOUT
            else:
                return message

    def _handle_result(self, message: Message, job: Job, tally: Tally) -> None:
        if isinstance(message, CallDone):
            try:
                tally.answer.append(answer_of(message, job.answer))
            except msgspec.MsgspecError as error:
                raise ConnectionClosed(f"expected an answer of another kind: {error}") from error
            self._is_spent = False
        elif isinstance(message, Failed):
            self._is_spent = message.is_spent
            raise ToolError(message.message)
        elif isinstance(message, Undone):
            self._is_spent = False

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
                if length > largest(self.config):
                    raise ConnectionClosed(f"the process announced a message of {length} bytes")
                # The buffer keeps a partial frame, so that a cancelled call loses nothing.
                end = LENGTH.size + length
                if len(self._buffer) >= end:
                    body = bytes(self._buffer[LENGTH.size : end])
                    del self._buffer[:end]
                    try:
                        return message_of(body)
                    except msgspec.MsgspecError as error:
                        raise ConnectionClosed(f"the process sent an invalid message: {error}") from error
            piece = await self._stdout.receive_some(_CHUNK)
            if not piece:
                raise ConnectionClosed("the process has ended")
            self._buffer += piece

    async def _last_words(self) -> str:
        """Return why the child has ended, as far as known."""
        output = b""
        with trio.move_on_after(STOP_TIMEOUT):
            output = await self._stderr.receive_some(_CHUNK)
        await self.end()
        code = self._process.returncode
        # The last line of a traceback is the exception.
        text = output.decode(errors="replace").strip()[-_MAX_ERROR_CHARS:].rpartition("\n")[2]
        if code is not None and code < 0:
            return f"{signal.Signals(-code).name} {text}".rstrip()
        return text or f"exit code {code}"
