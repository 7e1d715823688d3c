"""A child process with three pipes, in a group of its own, of which nothing is left at the end.

Started by the transport that runs a server. It leads a session of its own: Ctrl-C in our terminal does not reach it,
and whatever it starts (npx starts a shell, that starts node) can be signalled with it.
The one rule: its number is given back to the system last of all. As long as a dead child has not been waited for, its
number cannot become that of somebody else's group, so a signal to the group reaches nobody but ours.

Left out: what has moved to another session (a daemon) is no longer in the group, and stays. Windows knows no signals to
a group; there only the child itself is ended.

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

__all__ = ["KILLED", "ChildProcess", "program_name", "signal_name", "start_process"]

KILLED = 5.0
"""Seconds for a killed group to vanish; only what hangs in the kernel, or is waited for by nobody, takes longer."""

_CREATION_FLAGS = 0
if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP

_POLL = 0.05
"""Seconds between looks where nothing tells us of an end."""
_MAX_QUOTED_CHARS = 100
"""Characters of a program's name in errors."""


class ChildProcess:
    """Made by :func:`start_process`.

    Attributes:
        pid: its number, and that of its group.
        stdin: the descriptor of our end of its standard input; the receiver closes all three.
        stdout: of its standard output.
        stderr: of its standard error.
    """

    def __init__(self, popen: subprocess.Popen[bytes], *, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = popen.pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self._popen = popen
        self._returncode: int | None = None
        self._gone = False
        self._watched = _open_pidfd(popen.pid)
        self._watching = trio.Lock()

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended it; ``None`` while it lives."""
        if self._returncode is None:
            self._returncode = self._look()
        return self._returncode

    async def wait(self) -> int:
        """Wait until it has ended, and return its exit code. Any number of tasks may."""
        async with self._watching:
            pause = 0.001
            while (code := self.returncode) is None:
                if self._watched is None:
                    await trio.sleep(pause)
                    pause = min(2 * pause, _POLL)
                else:
                    with suppress(trio.ClosedResourceError):
                        await trio.lowlevel.wait_readable(self._watched)
        return code

    async def end(self, *, exit: float, terminate: float) -> bool:
        """Wait for its end, then ask the group to end, then kill it. Called under a shield, with its input closed.

        Args:
            exit: seconds in which it may end by itself.
            terminate: seconds for what is left of the group after SIGTERM.

        Returns:
            Whether nothing of the group is left.
        """
        try:
            with trio.move_on_after(exit):
                await self.wait()
            if not self._is_gone():
                self._signal_group(signal.SIGTERM)
                with trio.move_on_after(terminate):
                    await self._wait_until_gone()
        finally:
            # A second Ctrl-C comes here at once.
            if not self._is_gone():
                self._kill_group()
                with trio.move_on_after(KILLED, shield=True):
                    await self._wait_until_gone()
            watched, self._watched = self._watched, None
            if watched is not None:
                trio.lowlevel.notify_closing(watched)
                os.close(watched)
        return self._gone

    def _look(self) -> int | None:
        """The exit code, if it has ended. It is left as it is, where the system allows."""
        if sys.platform != "linux":
            return self._popen.poll()
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            # Somebody in this process waits for children that are not his: the number may be anybody's by now.
            self._gone = True
            return self._popen.wait()
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    async def _wait_until_gone(self) -> None:
        await self.wait()
        pause = 0.001
        while not self._is_gone():
            await trio.sleep(pause)
            pause = min(2 * pause, _POLL)

    def _is_gone(self) -> bool:
        """Whether nothing is left of the group. From now on a child that has ended is given back to the system."""
        if self.returncode is None or self._gone:
            return self._gone
        self._popen.wait()
        if sys.platform == "win32":
            self._gone = True
        else:
            # Where we are the first process of a container, or its like, orphans become our children.
            with suppress(ChildProcessError):
                while os.waitpid(-self.pid, os.WNOHANG)[0]:
                    pass
            try:
                os.killpg(self.pid, 0)
            except (ProcessLookupError, PermissionError):  # macOS says the latter of a group that has just died
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
    """Start a process and return when it runs the command.

    Blocks for a few milliseconds, more where this process is large (measured: 1 to 3 ms; with 500 MB 27): on Linux
    it has to fork, and from this very thread, since the kernel kills the child when the thread ends that has forked.

    Args:
        command: the program and its arguments; looked for in the ``PATH`` of ``env``.
        env: the whole environment.
        cwd: where it runs; by default where we do.
        dies_with_us: the kernel kills it when we die without ending it (Linux). A command that soon ends by itself can
            do without, and is then started in a millisecond, however large this process is: nothing has to run
            between fork and exec, so nothing has to be forked.

    Raises:
        ConnectionClosed: it cannot be started; the message says why.
    """
    with ExitStack() as theirs, ExitStack() as ours:
        try:
            stdin_there, stdin = _pipe(theirs, ours)
            stdout, stdout_there = _pipe(ours, theirs)
            stderr, stderr_there = _pipe(ours, theirs)
            popen = subprocess.Popen(
                _found(command, env),
                stdin=stdin_there,
                stdout=stdout_there,
                stderr=stderr_there,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()) if dies_with_us else None,
                creationflags=_CREATION_FLAGS,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise ConnectionClosed(f"cannot start {program_name(command)}: {_why(error, command, cwd)}") from error
        ours.pop_all()
    return ChildProcess(popen, stdin=stdin, stdout=stdout, stderr=stderr)


def program_name(command: Sequence[str]) -> str:
    """Return the name of a command's program, for logs and errors.

    Arguments are left out: they may be API keys, and errors reach the clients of a server that mounts this one.
    """
    text = Path(command[0]).name or command[0]
    return text if len(text) <= _MAX_QUOTED_CHARS else text[: _MAX_QUOTED_CHARS - 1] + "…"


def signal_name(number: int) -> str:
    """``SIGKILL``; most signals for real time have a number only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _pipe(reads: ExitStack, writes: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reads.callback(os.close, read)
    writes.callback(os.close, write)
    return read, write


def _found(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """On Windows npx and its like are .cmd files, which only a search finds."""
    first, *arguments = command
    if sys.platform == "win32":
        first = shutil.which(first, path=env.get("PATH")) or first
    return [first, *arguments]


def _why(error: Exception, command: Sequence[str], cwd: Path | str | None) -> str:
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
    """A descriptor that is readable when the process has ended, where there is such a thing."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, a sandbox, too many descriptors
        return None


# Looked up here, so that between fork and exec nothing is imported or waited for; PyDLL keeps the interpreter's lock.
_PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.PyDLL(None), "prctl", None) if sys.platform == "linux" else None
if _prctl is not None:
    _prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def _die_with(parent: int) -> Callable[[], None] | None:
    """What the child does before it runs the command: ask to be killed when the thread ends that has started it.

    SIGKILL, since nobody would be there to follow a SIGTERM up.
    """
    prctl = _prctl
    if sys.platform == "win32" or prctl is None:
        return None

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it has died before we asked
            os._exit(1)

    return ask
