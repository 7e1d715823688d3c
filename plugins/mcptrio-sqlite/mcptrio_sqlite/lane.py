"""One child from the server's side: started, asked, stopped, ended.

Made by ``Lanes``, and used by one call at a time. The one rule: whoever asks gets an answer or has the child stopped,
and a child that does not stop by itself is killed; so a call that is cancelled returns within :data:`REACTION`.
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

__all__ = ["REACTION", "Lane", "Tally"]

REACTION: Final = 0.25
"""Seconds in which a child has to react to being stopped; SQLite does so within a millisecond, between its steps."""
_CLOSING: Final = 10.0
"""Seconds for COMMIT, for undoing and for closing, all of which end by themselves."""
_STARTING: Final = 20.0
"""Seconds for a child to start: an interpreter takes a tenth of one on an idle machine."""
_CHUNK: Final = 65536
_LAST_WORDS: Final = 2.0
"""Seconds for finding out why a child has ended."""
_COMPLAINT: Final = 4000
"""Characters of a child's last words that are kept."""

_START: Final = """
import sys, types
sys.path[:] = sys.argv[2:]
package = types.ModuleType("mcptrio_sqlite")
package.__path__ = [sys.argv[1]]
sys.modules["mcptrio_sqlite"] = package
from mcptrio_sqlite.child import main
main()
"""
"""For ``python -c``, with the folder of this package and ``sys.path``. The package's own module, which imports all of
the plugin, is left out: that takes four times as long as the rest."""

_FOLDER: Final = str(Path(__file__).parent)
_PASSED_ON: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH", "SQLITE_TMPDIR", "TMPDIR", "LANG", "LC_ALL")


@define(eq=False)
class Tally:
    """How far a call is, and what has come of it."""

    steps: int = 0
    rows: int = 0
    answer: list[Any] = field(factory=list)
    """One, if it is done; perhaps it was so before it could be stopped."""
    is_killed: bool = False
    """The child was killed, or has died, before it said what has come of it."""
    has_turned: bool = False
    """By then its statement was at its end, so its changes may have been made."""


@define(eq=False)
class Lane:
    """A child that runs one job at a time."""

    config: Config
    _process: ChildProcess
    _stdin: trio.lowlevel.FdStream
    _stdout: trio.lowlevel.FdStream
    _stderr: trio.lowlevel.FdStream
    _buffer: bytearray = field(init=False, factory=bytearray)
    _number: int = field(init=False, default=0)
    _is_spent: bool = field(init=False, default=True)
    """It is in the middle of something, or will never do anything again."""

    @classmethod
    async def start(cls, config: Config) -> Lane:
        """Start a child and wait until it can be asked.

        Raises:
            ToolError: it does not start; why.
        """
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment["MALLOC_ARENA_MAX"] = "1"  # each arena would take 64 MiB of its address space
        command = (sys.executable, "-P", "-c", _START, _FOLDER, *filter(os.path.isabs, sys.path))
        try:
            process = start_process(command, env=environment)
        except ConnectionClosed as error:
            raise ToolError(str(error)) from error
        streams = (trio.lowlevel.FdStream(each) for each in (process.stdin, process.stdout, process.stderr))
        lane = cls(config, process, *streams)
        try:
            with trio.fail_after(_STARTING):
                await lane._send(order_frame(config))
                lane._is_spent = not isinstance(await lane._hear(), Ready)
        except trio.TooSlowError as error:
            raise ToolError(f"the process for queries did not start within {_STARTING:g} seconds") from error
        except ConnectionClosed as error:
            said = "it does not say why"
            with trio.move_on_after(_LAST_WORDS, shield=True):
                said = await lane._last_words()
            raise ToolError(f"the process for queries did not start: {said}") from error
        finally:
            if lane._is_spent:
                with trio.move_on_after(_LAST_WORDS, shield=True):
                    await lane.end()
        return lane

    @property
    def is_usable(self) -> bool:
        """Whether it can be asked again."""
        return not self._is_spent and self._process.returncode is None

    async def run(self, database: DatabaseFile, job: Job, tally: Tally) -> None:
        """Have a job done; its answer is in ``tally``, also where it is done and the call is cancelled by then.

        Raises:
            ToolError: it does not work.
        """
        self._number += 1
        self._is_spent = True
        is_sent = False
        try:
            await self._send(order_frame(Order(number=self._number, database=database, job=job)))
            is_sent = True
            self._heed(await self._hear_end(tally, None), job, tally)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                if is_sent:
                    await self._stop(job, tally)
            tally.is_killed = self._is_spent
            raise
        except ConnectionClosed as error:
            tally.is_killed = True
            said = "it does not say why"
            with trio.move_on_after(_LAST_WORDS, shield=True):
                said = await self._last_words()
            raise ToolError(f"the process that ran this has ended: {said}") from error

    def close(self) -> None:
        """Tell it that nobody will ask again; it ends at once, whatever it does."""
        self._stdin.close()

    async def end(self) -> None:
        """End it, by force. Not cancelled; bounded by the time the system takes."""
        self._is_spent = True
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()
        with trio.CancelScope(shield=True):
            await self._process.end(exit=0, terminate=0)

    async def _stop(self, job: Job, tally: Tally) -> None:
        with trio.move_on_after(REACTION) as scope:
            try:
                await self._send(order_frame(Stop(number=self._number)))
                self._heed(await self._hear_end(tally, scope), job, tally)
            except (ConnectionClosed, ToolError):
                pass  # the call is over; whether it has failed is of no interest

    async def _hear_end(self, tally: Tally, scope: trio.CancelScope | None) -> Message:
        """Hear how far it is, and at last what has come of it.

        Args:
            scope: of one that is to stop; it is given more time once its statement is at its end.
        """
        if scope is not None and tally.has_turned:
            scope.deadline = trio.current_time() + _CLOSING
        while True:
            message = await self._hear()
            if isinstance(message, CallProgress):
                tally.steps, tally.rows = message.steps, message.rows
            elif isinstance(message, Turn):
                tally.has_turned = True
                if scope is not None:
                    scope.deadline = trio.current_time() + _CLOSING
            else:
                return message

    def _heed(self, message: Message, job: Job, tally: Tally) -> None:
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
            raise ConnectionClosed("it does not listen") from error

    async def _hear(self) -> Message:
        """The next message. May be cancelled, and called again.

        Raises:
            ConnectionClosed: it has ended, or what it says is no message.
        """
        while True:
            if len(self._buffer) >= LENGTH.size:
                (length,) = LENGTH.unpack_from(self._buffer)
                if length > largest(self.config):
                    raise ConnectionClosed(f"it announced {length} bytes")
                end = LENGTH.size + length
                if len(self._buffer) >= end:
                    body = bytes(self._buffer[LENGTH.size : end])
                    del self._buffer[:end]
                    try:
                        return message_of(body)
                    except msgspec.MsgspecError as error:
                        raise ConnectionClosed(f"it said what is no message: {error}") from error
            piece = await self._stdout.receive_some(_CHUNK)
            if not piece:
                raise ConnectionClosed("it has ended")
            self._buffer += piece

    async def _last_words(self) -> str:
        """Why it has ended, as far as can be told."""
        said = b""
        with trio.move_on_after(REACTION):
            said = await self._stderr.receive_some(_CHUNK)
        await self.end()
        code = self._process.returncode
        text = said.decode(errors="replace").strip()[-_COMPLAINT:].rpartition("\n")[2]
        if code is not None and code < 0:
            return f"{signal.Signals(-code).name} {text}".rstrip()
        return text or f"exit code {code}"
