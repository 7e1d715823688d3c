"""A process that has loaded the commands and forks for each run, which takes a fifth of the time of starting Python.

:mod:`tests.commands.processes` uses it; the conftest starts it once, as ``python -m tests.commands.warm FD``. A fork is
a process with its own pipes or terminal, folder, environment and exit status, and has run nothing before ``main``.
Tests of the start-up do not use it. Options that Python itself reads at its start cannot be passed; see :func:`fits`.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import field, frozen

__all__ = ["Started", "Warm", "fits", "warm"]

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("cli.group", "connecting.connect", "server", "host", "serve.config", "cli.server.plugin_server")
"""Modules that the commands load, some of them late; ``mcptrio.cli`` lists the commands themselves."""
START_SECONDS = 60.0
PROGRAM = """\
#!{python} -IS
import json, os, socket, sys

command = [sys.executable, "-m", "mcptrio", *sys.argv[1:]]
number = os.environ.pop("WARM_SOCKET", None)
if number is None:  # started by a forked run, which does not have the socket
    os.execv(sys.executable, command)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
request = {{"args": sys.argv[1:], "cwd": os.getcwd(), "environment": dict(os.environ), "has_terminal": False}}
descriptors = [0, 1, 2, theirs.fileno()]
socket.send_fds(socket.socket(fileno=int(number)), [json.dumps(request).encode()], descriptors)
theirs.close()
ours.recv(20)
code = int(ours.recv(20))
sys.exit(code if code >= 0 else 128 - code)
"""
"""``mcptrio`` for a shell script: it requests a fork as well."""
_REQUEST_BYTES = 1 << 20
_GIVEN = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Variables that Python reads at its start, and that can still be set in a running process."""


def fits(environment: Mapping[str, str]) -> bool:
    """Return whether a running process can use this environment: Python reads some variables only at its start."""
    return all(
        os.environ.get(name) == value or (name in _GIVEN and name not in os.environ)
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LC_", "LANG"))
    )


@frozen
class Started:
    """One run, with the used part of the interface of :class:`subprocess.Popen`."""

    pid: int
    _reply: socket.socket
    _code: list[int] = field(factory=list)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit; return the exit code."""
        if not self._code:
            self._reply.settimeout(timeout)
            try:
                self._code.append(int(self._reply.recv(20)))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("mcptrio", timeout or 0) from None
            self._reply.close()
        return self._code[0]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


@frozen
class Warm:
    """The client's side."""

    _socket: socket.socket

    @property
    def descriptor(self) -> int:
        """Inherited by the program of :meth:`write_program`, and named by ``WARM_SOCKET``."""
        return self._socket.fileno()

    def write_program(self, folder: Path) -> None:
        """Write ``mcptrio`` for a shell, into a folder that is first in its ``PATH``."""
        program = folder / "mcptrio"
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)

    def start(
        self,
        args: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        descriptors: Sequence[int],
        has_terminal: bool = False,
    ) -> Started:
        """Start ``mcptrio`` with these arguments.

        Args:
            descriptors: The process's standard input, output and error.
            has_terminal: Whether its standard input becomes the controlling terminal of a new session.
        """
        request = {"args": list(args), "cwd": str(cwd), "environment": dict(environment), "has_terminal": has_terminal}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [*descriptors, theirs.fileno()])
        ours.settimeout(START_SECONDS)
        return Started(int(ours.recv(20)), ours)

    def run(
        self, args: Sequence[str], *, cwd: Path, environment: Mapping[str, str], stdin: bytes, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run ``mcptrio`` with these arguments until it exits."""
        deadline = time.monotonic() + timeout
        pipes = [os.pipe() for _ in range(3)]
        (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = pipes
        theirs = (theirs_in, theirs_out, theirs_err)
        process = self.start(args, cwd=cwd, environment=environment, descriptors=theirs)
        for end in theirs:
            os.close(end)
        try:
            with suppress(BrokenPipeError):
                os.write(ours_in, stdin)
            os.close(ours_in)
            out, err = _read((ours_out, ours_err), deadline, args)
            code = process.wait(max(deadline - time.monotonic(), 0.01))
        except BaseException:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            os.close(ours_out)
            os.close(ours_err)
        return subprocess.CompletedProcess(list(args), code, out, err)


@contextmanager
def warm() -> Iterator[Warm]:
    """Yield the process; it ends with the context."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.commands.warm", str(theirs.fileno())],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        ours.settimeout(START_SECONDS)
        try:
            assert ours.recv(20) == b"warm"
            yield Warm(ours)
        finally:
            ours.close()
            process.wait(START_SECONDS)


def _read(ends: Sequence[int], deadline: float, args: Sequence[str]) -> list[bytes]:
    """Read both pipes to the end."""
    got = dict.fromkeys(ends, b"")
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(list(args), left)
            for key, _ in selector.select(left):
                data = os.read(key.fd, 65536)
                got[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
    return list(got.values())


# The process's side


def _serve(ours: socket.socket) -> None:
    """Fork for each request until the tests close the socket. Return in the child, with everything set up."""
    running: dict[int, socket.socket] = {}
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ours.send(b"warm")
    while True:
        readable, _, _ = select.select([ours, woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            _tell_ends(running)
        if ours not in readable:
            continue
        request, descriptors, _, _ = socket.recv_fds(ours, _REQUEST_BYTES, 4)
        if not request:
            sys.exit()
        *descriptors, reply_descriptor = descriptors
        reply = socket.socket(fileno=reply_descriptor)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (ours, *running.values()):
                each.close()
            for end in (woken, wake):
                os.close(end)
            _become(json.loads(request), descriptors)
            reply.send(b"%d" % os.getpid())
            reply.close()
            return
        running[pid] = reply
        for descriptor in descriptors:
            os.close(descriptor)


def _tell_ends(running: dict[int, socket.socket]) -> None:
    """Report ended processes with their status."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as reply, suppress(BrokenPipeError):
            reply.send(b"%d" % os.waitstatus_to_exitcode(status))


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    # If the tests run in the background, Ctrl-C is ignored, which children inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["has_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]  # as of any `python -m`
    path = request["environment"].get("PYTHONPATH", "")
    if path and path != os.environ.get("PYTHONPATH"):
        sys.path[1:1] = path.split(os.pathsep)
    sys.dont_write_bytecode = bool(request["environment"].get("PYTHONDONTWRITEBYTECODE"))
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["mcptrio", *request["args"]]
    # Closed when the process ends, like those that Python itself opens.
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding=sys.stderr.encoding, errors=sys.stderr.errors)  # noqa: SIM115


if __name__ == "__main__":
    from importlib import import_module

    for module in COMMANDS:
        import_module(f"mcptrio.{module}")
    from mcptrio.cli import group

    for name in group.COMMANDS:
        group.cli.commands[name]
    gc.collect()
    gc.freeze()  # Modules loaded here are not garbage of a run.
    _serve(socket.socket(fileno=int(sys.argv[1])))
    group.main()
