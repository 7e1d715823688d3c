"""Runs ``mcptrio`` like a user or a script: with pipes, or on its own terminal.

The tests of the client's commands use it. Every wait has a deadline, and the process and its children always end.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import define

from tests.commands.warm import Started, Warm, fits
from tests.processes import WAIT_TIMEOUT, environment

__all__ = ["PLUGIN", "WARM", "AtTerminal", "at_terminal", "run", "run_lines", "run_text", "started", "with_plugin"]

PLUGIN = Path(__file__).parent / "plugin.py"
WARM: list[Warm] = []
"""The process of the conftest that forks for each run, if there is one."""
_ERASED = re.compile(r"(?:^|\n)?\r\x1b\[K")
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def with_plugin(command: str, *args: str) -> tuple[str, ...]:
    """Return a command with the plugin of these tests, which is served in the command's process."""
    return (command, "--plugin", str(PLUGIN), *args)


def run(
    *args: str, cwd: Path, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run ``mcptrio`` until it exits."""
    variables = environment(**(env or {}))
    if WARM and fits(variables):
        return WARM[0].run(args, cwd=cwd, environment=variables, stdin=stdin, timeout=WAIT_TIMEOUT)
    return subprocess.run(
        [sys.executable, "-m", "mcptrio", *args],
        cwd=cwd,
        env=variables,
        input=stdin,
        capture_output=True,
        timeout=WAIT_TIMEOUT,
        check=False,
        preexec_fn=_as_from_a_shell,
    )


def run_text(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run ``mcptrio`` with text output and empty input; :func:`tests.processes.run` does so in a new Python process."""
    result = run(*args, cwd=cwd, env=env)
    return subprocess.CompletedProcess(result.args, result.returncode, result.stdout.decode(), result.stderr.decode())


def run_lines(script: str, *, cwd: Path, programs: Path) -> str:
    """Run shell lines that call ``mcptrio``, and return both outputs.

    Args:
        programs: An empty folder for the program ``mcptrio`` that the lines call.
    """
    variables = environment(PATH=f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    inherited: tuple[int, ...] = ()
    if WARM:
        WARM[0].write_program(programs)
        inherited = (WARM[0].descriptor,)
        variables["WARM_SOCKET"] = str(inherited[0])
    return subprocess.run(
        ["bash", "-c", script],
        cwd=cwd,
        env=variables,
        pass_fds=inherited,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=4 * WAIT_TIMEOUT,
        check=False,
    ).stdout


@contextmanager
def started(*args: str, cwd: Path, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """Yield ``mcptrio``, running, with pipes for its output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mcptrio", *args],
        cwd=cwd,
        env=environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_as_from_a_shell,
    )
    try:
        with process:
            yield process
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@define(eq=False)
class AtTerminal:
    """A process, and the controlling side of its terminal."""

    process: subprocess.Popen[bytes] | Started
    _fd: int
    raw: bytes = b""
    """The whole output."""
    _seen: int = 0
    """The number of characters of ``shown`` that were matched."""

    @property
    def shown(self) -> str:
        """The whole output without escape sequences; each redrawn line is one more line."""
        text = self.raw.decode("utf-8", "replace").replace("\r\n", "\n")
        return _STEERING.sub("", _ERASED.sub("\n", text))

    def until(self, pattern: str, seconds: float = WAIT_TIMEOUT) -> re.Match[str]:
        """Wait until the output after the last match matches the pattern."""
        deadline = time.monotonic() + seconds
        while True:
            if match := re.compile(pattern).search(self.shown, self._seen):
                self._seen = match.end()
                return match
            left = deadline - time.monotonic()
            rest = self.shown[self._seen :]
            assert left > 0, f"no {pattern!r} within {seconds} s, but {rest!r}"
            assert self._read(left), f"it has ended without {pattern!r}, but with {rest!r}"

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._fd, text.encode())

    def end(self, seconds: float = WAIT_TIMEOUT) -> int:
        """Wait for the exit; return the exit code."""
        deadline = time.monotonic() + seconds
        while self._read(max(deadline - time.monotonic(), 0)):
            assert time.monotonic() < deadline, f"still there after {seconds} s: {self.shown[self._seen :]!r}"
        return self.process.wait(max(deadline - time.monotonic(), 1))

    def echoes(self) -> bool:
        """Whether the terminal is restored: it echoes, and it delivers whole lines."""
        flags: int = termios.tcgetattr(self._fd)[3]
        return bool(flags & termios.ECHO) and bool(flags & termios.ICANON) and bool(flags & termios.ISIG)

    def _read(self, seconds: float) -> bool:
        """Read output; return whether more may follow."""
        readable, _, _ = select.select([self._fd], [], [], seconds)
        if not readable:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux raises this once the last process has closed the terminal.
            return False
        self.raw += data
        return bool(data)


@contextmanager
def at_terminal(
    *args: str,
    cwd: Path,
    columns: int = 100,
    stdout: int | None = None,
    env: Mapping[str, str] | None = None,
    from_nothing: bool = False,
) -> Iterator[AtTerminal]:
    """Run ``mcptrio`` at a terminal.

    Args:
        stdout: A descriptor for the standard output; by default the terminal.
        from_nothing: Start a new Python process instead of forking a prepared one.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = environment(TERM="xterm-256color", XDG_STATE_HOME=str(cwd / "state"))
    variables.pop("NO_COLOR", None)
    variables.update(env or {})
    try:
        descriptors = (theirs, theirs if stdout is None else stdout, theirs)
        process: subprocess.Popen[bytes] | Started
        if WARM and fits(variables) and not from_nothing:
            process = WARM[0].start(args, cwd=cwd, environment=variables, descriptors=descriptors, has_terminal=True)
        else:
            process = subprocess.Popen(
                [sys.executable, "-m", "mcptrio", *args],
                cwd=cwd,
                env=variables,
                stdin=descriptors[0],
                stdout=descriptors[1],
                stderr=descriptors[2],
                start_new_session=True,
                preexec_fn=_take_terminal,
            )
        os.close(theirs)
        try:
            yield AtTerminal(process, ours)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        os.close(ours)


def _as_from_a_shell() -> None:
    # If the tests run in the background, Ctrl-C is ignored, which children inherit.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _take_terminal() -> None:
    _as_from_a_shell()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
