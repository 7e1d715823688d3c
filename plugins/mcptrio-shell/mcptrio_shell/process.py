"""One running command: its start, output, input and end.

``Processes.admit`` creates it. :meth:`Process.run` runs in the task that owns the command: the call of ``run_command``,
or a task of the plugin's lifespan. It returns after the warden has reported that no process of the command is left, or
after the grace period and two times :data:`KILL_TIMEOUT` if the warden does not report.
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
from .output_buffer import OutputBuffer
from .policy import PermittedCommand

__all__ = ["KILL_TIMEOUT", "Process", "Status"]

Status = Literal["running", "exited", "timed_out", "stopped", "too_much_output", "too_many_processes", "lost"]
"""The status of a command: running, ended on its own, or the reason why it was ended. ``lost``: its warden was
killed."""

KILL_TIMEOUT = 10.0
"""Seconds for killed processes to disappear."""
_START_TIMEOUT = 30.0
"""Seconds for the warden to start the command. The interpreter takes 20 to 40 ms on an idle machine."""
_OUTPUT_TIMEOUT = 0.5
"""Seconds to read the last output after no process of the command is left."""
_CHUNK_BYTES = 65536
_MAX_MESSAGE_BYTES = 4096
"""Length limit in bytes for a line of the warden."""

_WARDEN = Path(__file__).with_name("warden.py")
# Variables that the interpreter may need to start. The command does not get them.
_WARDEN_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


@define(eq=False)
class Process:
    """A command and its state."""

    id: str
    command: PermittedCommand
    config: Config
    owner: str
    """Caller key of the only caller that may access it."""
    on_change: Callable[[Process], None]
    """Called after new output and at the end."""
    merged: bool = False
    """Standard error is written to standard output, in the order of writing."""

    status: Status = "running"
    exit_code: int | None = None
    signal: str | None = None
    cpu_seconds: float | None = None
    left_behind: int = 0
    """Processes that were still running when the command exited, and were ended."""
    stdout: OutputBuffer = field(init=False)
    stderr: OutputBuffer = field(init=False)
    started_at: float = field(factory=time.time)
    """Wall clock time in seconds since 1970."""
    ended_at: float | None = None
    finished: trio.Event = field(factory=trio.Event)
    """Set when no process of the command is left and its output was read."""

    _pid: int = 0
    # errno of the exec that failed.
    _start_errno: int | None = None
    _is_started: bool = False
    # True once the warden has received the order to start the command.
    _is_ordered: bool = False
    # True once no process of the command is left, as far as the server can know.
    _gone: bool = False
    _run_scope: trio.CancelScope = field(factory=trio.CancelScope)
    _control: socket.socket | None = None
    _receive_buffer: bytes = b""
    _warden: trio.Process | None = None
    _input: trio.lowlevel.FdStream | None = None
    _outputs: dict[trio.lowlevel.FdStream, OutputBuffer] = field(factory=dict)
    _writing: trio.Lock = field(factory=trio.Lock)
    _updated: trio.Event = field(factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self.stdout = OutputBuffer(self.config.log_bytes)
        self.stderr = OutputBuffer(self.config.log_bytes)

    async def run(
        self,
        *,
        seconds: float,
        stdin: bytes | None = None,
        keep_input: bool = False,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start the command and wait until it has ended. If cancelled, end it.

        Args:
            seconds: Timeout of the command.
            stdin: The standard input of the command; ``None`` for none.
            keep_input: Keep its standard input open for further input.

        Raises:
            ToolError: The command could not be started.
        """
        try:
            await self._start(with_input=stdin is not None or keep_input)
            task_status.started()
            self._run_scope.deadline = trio.current_time() + seconds
            with self._run_scope:
                async with trio.open_nursery() as nursery:
                    if stdin is not None:
                        nursery.start_soon(self._feed, stdin, keep_input)
                    await self._read_until_gone()
                    nursery.cancel_scope.cancel()  # stops feeding input that the command did not read
            if self._run_scope.cancelled_caught and self.status == "running":
                self.status = "timed_out"
        finally:
            with trio.move_on_after(self.config.grace + KILL_TIMEOUT, shield=True):
                if self._is_ordered and not self._gone:
                    self.begin_stop()
                    # Output must still be read: a program whose output blocks would not exit.
                    await self._read_until_gone()
            self._kill()
            # A separate timeout, so that descriptors are released even if the wait above has timed out.
            with trio.move_on_after(KILL_TIMEOUT, shield=True):
                await self._close()

    def begin_stop(self, why: Status = "stopped") -> None:
        """Start ending the command: SIGTERM, then SIGKILL after the grace period. Does not block."""
        if self.status == "running":
            self.status = why
        self._send_to_warden(b"T")
        self._wake_warden()

    async def stop(self) -> None:
        """End the command and wait until no process of it is left.

        Waits at most for the grace period and :data:`KILL_TIMEOUT`.
        """
        self.begin_stop()
        with trio.move_on_after(self.config.grace + KILL_TIMEOUT):
            await self.finished.wait()
        if not self.finished.is_set():
            self._run_scope.cancel()

    async def send(self, data: bytes, *, seconds: float, close: bool) -> int:
        """Write to the command's standard input, and close the input afterwards if ``close`` is true.

        Returns:
            The number of bytes that the command's pipe accepted within ``seconds``.

        Raises:
            ToolError: The standard input is closed, by the server or by the command.
        """
        sent = 0
        with trio.move_on_after(seconds) as scope:
            async with self._writing:
                while sent < len(data) or self._input is None:
                    if self._input is None:
                        raise ToolError(
                            f"process {self.id} accepts no more input; it has accepted {sent} bytes of this"
                        )
                    try:
                        # send_all() does not report how much it has written if it is cancelled.
                        sent += os.write(self._input.fileno(), data[sent : sent + _CHUNK_BYTES])
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

    async def wait_for_change(self, seconds: float) -> None:
        """Wait up to ``seconds`` for output or the end."""
        if not self.finished.is_set():
            with trio.move_on_after(seconds):
                await self._updated.wait()

    @property
    def seconds(self) -> float:
        """Run time so far, or in total."""
        return (self.ended_at or time.time()) - self.started_at

    @property
    def takes_input(self) -> bool:
        return self._input is not None

    # From the start to the end

    async def _start(self, *, with_input: bool) -> None:
        """Start the warden, and let it start the command.

        Raises:
            ToolError: One of them could not be started.
        """
        command = self.command
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._control = ours
        cwd = -1
        try:
            # The warden receives a descriptor, because another folder could replace the path after the check.
            cwd = await trio.to_thread.run_sync(Folders.open, command.cwd)
            environment = {name: os.environ[name] for name in _WARDEN_VARIABLES if name in os.environ}
            warden = await trio.lowlevel.open_process(
                # -I and -S skip the environment and the site packages; the interpreter starts faster and loads no
                # foreign code.
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
        for stream, output in ((warden.stdout, self.stdout), (warden.stderr, self.stderr)):
            assert isinstance(stream, trio.lowlevel.FdStream)
            self._outputs[stream] = output
        assert isinstance(warden.stdin, trio.lowlevel.FdStream)
        self._input = warden.stdin
        if not with_input:
            # The command then reads the end of the file at once.
            self._close_input()
        await self._send_order(cwd)

    async def _send_order(self, cwd: int) -> None:
        """Send the warden the command, and wait for its report."""
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
        with trio.move_on_after(_START_TIMEOUT):
            await self._send_all(struct.pack("!I", len(order)) + order)
            while not self._is_started and not self._gone:
                self._handle_message(await self._receive_message())
        if self._start_errno is not None:
            raise ToolError(f"cannot start {command.argv[0]}: {os.strerror(self._start_errno)}")
        # A command that kills its warden at once was started, although the warden could not report it.
        if not self._is_started and not (self._pid and self.status == "lost"):
            raise ToolError(f"cannot start {command.argv[0]}: the process that starts it has failed")

    async def _send_all(self, data: bytes) -> None:
        assert self._control is not None
        while data:
            try:
                data = data[self._control.send(data) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._control)
            except OSError:
                return  # the warden has ended, which _receive_message() notices
        self._is_ordered = True

    async def _receive_message(self) -> dict[str, Any] | None:
        """Return the warden's next message, or ``None`` once it has ended."""
        assert self._control is not None
        while b"\n" not in self._receive_buffer:
            try:
                piece = self._control.recv(_MAX_MESSAGE_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._control)
                continue
            except OSError:
                return None
            if not piece or len(self._receive_buffer) > _MAX_MESSAGE_BYTES:
                return None
            self._receive_buffer += piece
        line, _, self._receive_buffer = self._receive_buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    async def _read_until_gone(self) -> None:
        """Read output until no process of the command is left. May be cancelled and called again."""
        async with trio.open_nursery() as nursery:
            for stream, output in list(self._outputs.items()):
                nursery.start_soon(self._read, stream, output)
            while not self._gone:
                self._handle_message(await self._receive_message())
            # A process that has left the command, such as a service, may still hold the pipes open.
            nursery.cancel_scope.deadline = trio.current_time() + _OUTPUT_TIMEOUT

    def _handle_message(self, message: dict[str, Any] | None) -> None:
        """Update the state from a message of the warden."""
        if message is None:
            self._gone = True
            self.status = "lost"
            if self._pid:
                # The kernel kills the command together with its warden; the rest of its group is killed here.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._pid, signal.SIGKILL)
        elif "forked" in message:
            self._pid = message["forked"]
        elif "started" in message:
            self._is_started = True
        elif "failed" in message:
            self._gone = True
            self._start_errno = message["failed"]
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

    async def _read(self, stream: trio.lowlevel.FdStream, output: OutputBuffer) -> None:
        while data := await stream.receive_some(_CHUNK_BYTES):
            output.write(data)
            if self.stdout.total + self.stderr.total > self.config.max_output_bytes and self.status == "running":
                self.begin_stop("too_much_output")
            self._report_change()
        del self._outputs[stream]
        stream.close()

    async def _feed(self, data: bytes, keep_open: bool) -> None:
        # A command may ignore its input.
        with suppress(ToolError):
            await self.send(data, seconds=inf, close=not keep_open)

    def _report_change(self) -> None:
        self._updated.set()
        self._updated = trio.Event()
        self.on_change(self)

    def _send_to_warden(self, order: bytes) -> None:
        if self._control is not None and not self._gone:
            with suppress(OSError):
                self._control.send(order)

    def _wake_warden(self) -> None:
        if self._warden is not None and not self._gone:
            with suppress(ProcessLookupError, PermissionError):
                # The command may have stopped its warden, which then does not read its socket.
                self._warden.send_signal(signal.SIGCONT)

    def _kill(self) -> None:
        """Kill the command's group if the warden has not ended it in time."""
        # Until the warden has reaped the command, its process id cannot belong to another process.
        if self._is_ordered and not self._gone and self._pid and self.cpu_seconds is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            self._wake_warden()

    def _close_input(self) -> None:
        stream, self._input = self._input, None
        if stream is not None:
            stream.close()

    async def _close(self) -> None:
        """Release all descriptors, and reap the warden. A warden that does not end in time continues alone."""
        self._close_input()
        for stream in self._outputs:
            stream.close()
        self._outputs.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        self.ended_at = time.time()
        self.finished.set()
        self._report_change()
        if self._warden is not None:
            await self._warden.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
