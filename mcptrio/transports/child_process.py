"""A child process with three pipes, in a process group of its own that is ended as a whole.

ChildChannel uses it for servers, and plugins for commands. The child leads a new session, so Ctrl-C in the terminal
does not reach it. Processes that it starts belong to its group and receive the same signals: npx starts a shell, which
starts node. A daemon that moves to another session leaves the group and is not ended. Windows has no group signals;
only the child itself is ended there.

Source: setsid(2), kill(2), waitid(2), prctl(2) "PR_SET_PDEATHSIG"; MCP 2026-07-28, basic/transports/stdio, "Shutdown".
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import trio

from mcptrio.errors import ConnectionClosed

__all__ = ["KILL_TIMEOUT", "ChildProcess", "program_name", "signal_name", "start_process"]

KILL_TIMEOUT = 5.0
"""Seconds for a killed group to end. It takes longer only if a process hangs in the kernel or is not reaped."""

_CREATION_FLAGS = 0
if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP

_MAX_POLL_INTERVAL = 0.05
"""Longest pause in seconds between two checks, where the system sends no notification."""
_MAX_QUOTED_CHARS = 100
"""Characters of a program name that errors quote."""


class ChildProcess:
    """A running child process. Made by :func:`start_process`.

    Attributes:
        pid: The process id, which is also the id of its group.
        stdin: The descriptor for the child's standard input. The owner of the object must close all three descriptors.
        stdout: The descriptor for the child's standard output.
        stderr: The descriptor for the child's standard error.
    """

    def __init__(self, popen: subprocess.Popen[bytes], *, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = popen.pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self._popen = popen
        self._returncode: int | None = None
        self._gone = False
        self._pidfd = _open_pidfd(popen.pid)
        self._watching = trio.Lock()

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended the process; ``None`` while it runs."""
        if self._returncode is None:
            self._returncode = self._poll()
        return self._returncode

    async def wait(self) -> int:
        """Wait for the process to exit, and return its exit code. Several tasks may wait."""
        async with self._watching:
            pause = 0.001
            while (code := self.returncode) is None:
                if self._pidfd is None:
                    await trio.sleep(pause)
                    pause = min(2 * pause, _MAX_POLL_INTERVAL)
                else:
                    # end() closes the descriptor while tasks wait.
                    with suppress(trio.ClosedResourceError):
                        await trio.lowlevel.wait_readable(self._pidfd)
        return code

    async def end(self, *, exit: float, terminate: float) -> bool:
        """Wait for the process to exit, then send SIGTERM to its group, then SIGKILL.

        Close its standard input first, and call this under a shield.

        Args:
            exit: Seconds in which it may exit on its own.
            terminate: Seconds for the rest of the group after SIGTERM.

        Returns:
            True if no process of the group is left.
        """
        try:
            with trio.move_on_after(exit):
                await self.wait()
            if not self._is_gone():
                self._signal_group(signal.SIGTERM)
                with trio.move_on_after(terminate):
                    await self._wait_until_gone()
        finally:
            # In a finally block, because a second Ctrl-C skips the waits.
            if not self._is_gone():
                self._kill_group()
                with trio.move_on_after(KILL_TIMEOUT, shield=True):
                    await self._wait_until_gone()
            pidfd, self._pidfd = self._pidfd, None
            if pidfd is not None:
                trio.lowlevel.notify_closing(pidfd)
                os.close(pidfd)
        return self._gone

    def _poll(self) -> int | None:
        """Return the exit code if the process has exited, without reaping it where the system allows that."""
        if sys.platform != "linux":
            return self._popen.poll()
        try:
            # WNOWAIT leaves the zombie. While it exists, its process id cannot become the id of another group, so
            # signals to the group reach only this one.
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            # Other code in this process has reaped the child, so its id may already belong to another process.
            self._gone = True
            return self._popen.wait()
        if status is None:
            return None
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    async def _wait_until_gone(self) -> None:
        await self.wait()
        pause = 0.001
        while not self._is_gone():
            await trio.sleep(pause)
            pause = min(2 * pause, _MAX_POLL_INTERVAL)

    def _is_gone(self) -> bool:
        """Return whether no process of the group is left. Reaps the child if it has exited."""
        if self.returncode is None or self._gone:
            return self._gone
        self._popen.wait()
        if sys.platform == "win32":
            self._gone = True
        else:
            # If this is the first process of a container, or a subreaper, it is the parent of orphans and must reap
            # them.
            with suppress(ChildProcessError):
                while os.waitpid(-self.pid, os.WNOHANG)[0]:
                    pass
            try:
                os.killpg(self.pid, 0)
            except (ProcessLookupError, PermissionError):  # macOS raises the latter for a group that has just exited
                self._gone = True
        return self._gone

    def _signal_group(self, number: signal.Signals) -> None:
        if sys.platform == "win32":
            self._popen.terminate()
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _kill_group(self) -> None:
        if sys.platform == "win32":
            self._popen.kill()
        else:
            self._signal_group(signal.SIGKILL)


@trio.lowlevel.enable_ki_protection
def start_process(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path | str | None = None, dies_with_us: bool = True
) -> ChildProcess:
    """Start a process, and return once it runs the command.

    With ``dies_with_us``, this blocks for 1 to 3 ms, and longer in a large process (27 ms with 500 MB), because it
    requires a fork from this thread.

    Args:
        command: The program and its arguments. The program is looked up in the ``PATH`` of ``env``.
        env: The whole environment of the child.
        cwd: Working directory; by default that of this process.
        dies_with_us: Make the kernel kill the child if this process dies (Linux). A command that exits soon does not
            need it. Without it, no code runs between fork and exec, and starting takes a millisecond in a process of
            any size.

    Raises:
        ConnectionClosed: The process cannot be started; the message has the reason.
    """
    with ExitStack() as child_ends, ExitStack() as own_ends:
        try:
            stdin_there, stdin = _pipe(child_ends, own_ends)
            stdout, stdout_there = _pipe(own_ends, child_ends)
            stderr, stderr_there = _pipe(own_ends, child_ends)
            # Not in a worker thread, because PR_SET_PDEATHSIG kills the child when the thread that forked it ends.
            popen = subprocess.Popen(
                _resolve_program(command, env),
                stdin=stdin_there,
                stdout=stdout_there,
                stderr=stderr_there,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                preexec_fn=_kill_with_parent(os.getpid()) if dies_with_us else None,
                creationflags=_CREATION_FLAGS,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise ConnectionClosed(
                f"cannot start {program_name(command)}: {_problem_of(error, command, cwd)}"
            ) from error
        own_ends.pop_all()
    return ChildProcess(popen, stdin=stdin, stdout=stdout, stderr=stderr)


def program_name(command: Sequence[str]) -> str:
    """Return the name of a command's program, for logs and errors.

    The arguments are omitted. They may be API keys, and errors reach the clients of a server that mounts this one.
    """
    text = Path(command[0]).name or command[0]
    return text if len(text) <= _MAX_QUOTED_CHARS else text[: _MAX_QUOTED_CHARS - 1] + "…"


def signal_name(number: int) -> str:
    """Return the name of a signal, for example ``SIGKILL``; for most real-time signals, their number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _pipe(reads: ExitStack, writes: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reads.callback(os.close, read)
    writes.callback(os.close, write)
    return read, write


def _resolve_program(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    first, *arguments = command
    if sys.platform == "win32":
        # npx and similar programs are .cmd files on Windows, which only a search finds.
        first = shutil.which(first, path=env.get("PATH")) or first
    return [first, *arguments]


def _problem_of(error: Exception, command: Sequence[str], cwd: Path | str | None) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if cwd is not None and str(error.filename) == str(cwd):
        return f"{str(cwd)!r}, the working directory: {error.strerror}"
    if isinstance(error, FileNotFoundError):
        return f"{command[0]!r} was not found" + ("" if os.sep in command[0] else " in PATH")
    if isinstance(error, PermissionError):
        return f"{command[0]!r} cannot be executed: {error.strerror}"
    return error.strerror or str(error)


def _open_pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process exits, if the system supports it."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, a sandbox, or too many descriptors
        return None


# Looked up at import, so that the child imports nothing and takes no lock between fork and exec. PyDLL keeps the GIL.
_PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.PyDLL(None), "prctl", None) if sys.platform == "linux" else None
if _prctl is not None:
    _prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def _kill_with_parent(parent: int) -> Callable[[], None] | None:
    """Return a function for the child that asks the kernel to kill it when the parent's thread ends."""
    prctl = _prctl
    if sys.platform == "win32" or prctl is None:
        return None

    def ask() -> None:
        # SIGKILL, because after SIGTERM no parent would be left to kill a child that ignores it.
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the prctl call
            os._exit(1)

    return ask
