"""One command that runs: its output, its input, its end.

Made by the table of processes, run in the task that owns it: the call of ``run_command``, or a task of the plugin's
lifespan. The one rule: :meth:`Process.run` does not return, whatever ends it, before the warden has said that nothing
of the command is left, or has had its time to say so.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Literal

import trio
from attrs import asdict, define, field

from mcptrio import ToolError

from .config import Config
from .folders import Folders
from .policy import PermittedCommand
from .tape import Tape

__all__ = ["KILLED", "Process", "Status"]

Status = Literal["running", "exited", "timed_out", "stopped", "too_much_output", "too_many_processes", "lost"]
"""How it is, or how it ended: by itself, or for what reason it was ended. Lost is one whose warden was killed."""

KILLED = 10.0
"""Seconds for what was killed to be gone."""
_START = 30.0
"""Seconds for the warden to start the command: an interpreter takes 20 to 40 ms on an idle machine."""
_SETTLE = 0.5
"""Seconds in which the last output may still come once nothing of the command is left."""
_PIECE = 65536
_LINE = 4096
"""Bytes of the longest line that the warden writes."""

_WARDEN = Path(__file__).with_name("warden.py")
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Of our environment, what the interpreter itself may need to start; the command does not get it."""


@define(eq=False)
class Process:
    """A command and what is known of it."""

    id: str
    command: PermittedCommand
    config: Config
    owner: str
    """Who may look at it."""
    changed: Callable[[Process], None]
    """Told of new output, and of the end."""
    merged: bool = False
    """Standard error goes where standard output goes, in the order of writing."""

    status: Status = "running"
    exit_code: int | None = None
    signal: str | None = None
    cpu_seconds: float | None = None
    left_behind: int = 0
    """Processes that were still there when the command itself had ended, and were ended."""
    stdout: Tape = field(init=False)
    stderr: Tape = field(init=False)
    started_at: float = field(factory=time.time)
    """As the clock on the wall has it."""
    ended_at: float | None = None
    finished: trio.Event = field(factory=trio.Event)
    """Nothing of it is left, and all of its output has been read."""

    _pid: int = 0
    _failed: int | None = None
    """Why the command could not be started, as the system says."""
    _is_started: bool = False
    _is_ordered: bool = False
    """The warden has been told what to start."""
    _gone: bool = False
    """Nothing of the command is left, as far as anybody can tell."""
    _life: trio.CancelScope = field(factory=trio.CancelScope)
    _control: socket.socket | None = None
    _said: bytes = b""
    _warden: trio.Process | None = None
    _input: trio.lowlevel.FdStream | None = None
    _outputs: dict[trio.lowlevel.FdStream, Tape] = field(factory=dict)
    _writing: trio.Lock = field(factory=trio.Lock)
    _news: trio.Event = field(factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self.stdout = Tape(self.config.log_bytes)
        self.stderr = Tape(self.config.log_bytes)

    async def run(
        self,
        *,
        seconds: float,
        stdin: bytes | None = None,
        keep_input: bool = False,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start it and be there until it has ended; cancelled, end it.

        Args:
            seconds: how long it may run.
            stdin: what it reads; ``None`` is nothing.
            keep_input: its standard input stays open for more.

        Raises:
            ToolError: it could not be started.
        """
        try:
            await self._start(with_input=stdin is not None or keep_input)
            task_status.started()
            self._life.deadline = trio.current_time() + seconds
            with self._life:
                async with trio.open_nursery() as nursery:
                    if stdin is not None:
                        nursery.start_soon(self._feed, stdin, keep_input)
                    await self._attend()
                    nursery.cancel_scope.cancel()  # what it has not read by now it never will
            if self._life.cancelled_caught and self.status == "running":
                self.status = "timed_out"
        finally:
            with trio.move_on_after(self.config.grace + KILLED, shield=True):
                if self._is_ordered and not self._gone:
                    self.tell_to_stop()
                    await self._attend()  # a program that cannot get rid of what it has to say would not end
            self._kill()
            # On its own: whatever has become of the command, its descriptors and its place are given back.
            with trio.move_on_after(KILLED, shield=True):
                await self._close()

    def tell_to_stop(self, why: Status = "stopped") -> None:
        """Have it ended: SIGTERM, and SIGKILL after the grace. Does not wait."""
        if self.status == "running":
            self.status = why
        self._tell_warden(b"T")
        self._wake_warden()

    async def stop(self) -> None:
        """Have it ended and wait until nothing of it is left; bounded by the grace and :data:`KILLED`."""
        self.tell_to_stop()
        with trio.move_on_after(self.config.grace + KILLED):
            await self.finished.wait()
        if not self.finished.is_set():
            self._life.cancel()

    async def send(self, data: bytes, *, seconds: float, close: bool) -> int:
        """Write to its standard input, and close that if asked to.

        Returns:
            How many bytes it has taken within ``seconds``.

        Raises:
            ToolError: its standard input is closed, by us or by itself.
        """
        sent = 0
        with trio.move_on_after(seconds) as scope:
            async with self._writing:
                while sent < len(data) or self._input is None:
                    if self._input is None:
                        raise ToolError(f"process {self.id} takes no more input; it has taken {sent} bytes of this")
                    try:
                        sent += os.write(self._input.fileno(), data[sent : sent + _PIECE])
                    except BlockingIOError:
                        with suppress(trio.ClosedResourceError):
                            await trio.lowlevel.wait_writable(self._input.fileno())
                    except BrokenPipeError:
                        self._close_input()
                if close:
                    self._close_input()
        if not scope.cancelled_caught:
            await trio.lowlevel.checkpoint()
        return sent

    async def wait_news(self, seconds: float) -> None:
        """Wait for output or the end, but not longer than this."""
        if not self.finished.is_set():
            with trio.move_on_after(seconds):
                await self._news.wait()

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (self.ended_at or time.time()) - self.started_at

    @property
    def takes_input(self) -> bool:
        return self._input is not None

    # From the start to the end

    async def _start(self, *, with_input: bool) -> None:
        """Start the warden, and have it start the command.

        Raises:
            ToolError: one of them cannot be started; why.
        """
        command = self.command
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._control = ours
        cwd = -1
        try:
            cwd = await trio.to_thread.run_sync(Folders.open, command.cwd)
            environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
            warden = await trio.lowlevel.open_process(
                [sys.executable, "-I", "-S", str(_WARDEN), str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno(), cwd],
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError(f"cannot start {command.argv[0]}: {error.strerror or error}") from error
        finally:
            theirs.close()
            if cwd >= 0:
                os.close(cwd)
        self._warden = warden
        for stream, tape in ((warden.stdout, self.stdout), (warden.stderr, self.stderr)):
            assert isinstance(stream, trio.lowlevel.FdStream)
            self._outputs[stream] = tape
        assert isinstance(warden.stdin, trio.lowlevel.FdStream)
        self._input = warden.stdin
        if not with_input:
            self._close_input()
        await self._order(cwd)

    async def _order(self, cwd: int) -> None:
        """Tell the warden what to start, and hear whether that has worked."""
        assert self._control is not None
        command = self.command
        order = json.dumps(
            {
                "argv": command.argv,
                "executable": command.executable,
                "environment": dict(command.environment),
                "cwd": cwd,
                "merge": self.merged,
                "grace": self.config.grace,
                "no_new_privileges": self.config.no_new_privileges,
                "limits": asdict(self.config.limits),
            }
        ).encode()
        with trio.move_on_after(_START):
            await self._say(struct.pack("!I", len(order)) + order)
            while not self._is_started and not self._gone:
                self._heed(await self._hear())
        if self._failed is not None:
            raise ToolError(f"cannot start {command.argv[0]}: {os.strerror(self._failed)}")
        # One that has killed its warden at once has been started all the same.
        if not self._is_started and not (self._pid and self.status == "lost"):
            raise ToolError(f"cannot start {command.argv[0]}: the process that was to start it has failed")

    async def _say(self, data: bytes) -> None:
        assert self._control is not None
        while data:
            try:
                data = data[self._control.send(data) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._control)
            except OSError:
                return  # it has ended, which is heard
        self._is_ordered = True

    async def _hear(self) -> dict[str, Any] | None:
        """The warden's next message; ``None`` when it has ended."""
        assert self._control is not None
        while b"\n" not in self._said:
            try:
                piece = self._control.recv(_LINE)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._control)
                continue
            except OSError:
                return None
            if not piece or len(self._said) > _LINE:
                return None
            self._said += piece
        line, _, self._said = self._said.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    async def _attend(self) -> None:
        """Read what it writes until nothing of it is left. May be cancelled, and called again."""
        async with trio.open_nursery() as nursery:
            for stream, tape in list(self._outputs.items()):
                nursery.start_soon(self._read, stream, tape)
            while not self._gone:
                self._heed(await self._hear())
            # Nobody holds the pipes any more; should somebody all the same, he is not waited for.
            nursery.cancel_scope.deadline = trio.current_time() + _SETTLE

    def _heed(self, message: dict[str, Any] | None) -> None:
        """Take note of what the warden says."""
        if message is None:
            self._gone = True
            self.status = "lost"
            if self._pid:
                # Its death has killed the command; what else is in the group is killed here.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._pid, signal.SIGKILL)
        elif "forked" in message:
            self._pid = message["forked"]
        elif "started" in message:
            self._is_started = True
        elif "failed" in message:
            self._gone = True
            self._failed = message["failed"]
        elif "exited" in message:
            code = message["exited"]
            self.exit_code = code if code >= 0 else None
            self.signal = _signal_name(-code) if code < 0 else None
            self.cpu_seconds = round(message["cpu_seconds"], 3)
        else:
            self._gone = True
            self.left_behind = message["stopped"]
            if self.status == "running":
                self.status = "too_many_processes" if message["ended"] == "processes" else "exited"

    async def _read(self, stream: trio.lowlevel.FdStream, tape: Tape) -> None:
        while data := await stream.receive_some(_PIECE):
            tape.write(data)
            if self.stdout.total + self.stderr.total > self.config.max_output_bytes and self.status == "running":
                self.tell_to_stop("too_much_output")
            self._tell_news()
        del self._outputs[stream]
        stream.close()

    async def _feed(self, data: bytes, keep_open: bool) -> None:
        """Its first input. A command that does not read it has its reasons."""
        with suppress(ToolError):
            await self.send(data, seconds=inf, close=not keep_open)

    def _tell_news(self) -> None:
        self._news.set()
        self._news = trio.Event()
        self.changed(self)

    def _tell_warden(self, said: bytes) -> None:
        if self._control is not None and not self._gone:
            with suppress(OSError):
                self._control.send(said)

    def _wake_warden(self) -> None:
        """A command may have stopped its warden, which then hears nothing."""
        if self._warden is not None and not self._gone:
            with suppress(ProcessLookupError, PermissionError):
                self._warden.send_signal(signal.SIGCONT)

    def _kill(self) -> None:
        """What a warden that was kept from its work has not ended in time."""
        # While the warden has not taken leave of the command, its number is nobody else's.
        if self._is_ordered and not self._gone and self._pid and self.cpu_seconds is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            self._wake_warden()

    def _close_input(self) -> None:
        stream, self._input = self._input, None
        if stream is not None:
            stream.close()

    async def _close(self) -> None:
        """Give back every descriptor, and the warden's number. A warden that is still at work goes on alone."""
        self._close_input()
        for stream in self._outputs:
            stream.close()
        self._outputs.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        self.ended_at = time.time()
        self.finished.set()
        self._tell_news()
        if self._warden is not None:
            await self._warden.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
