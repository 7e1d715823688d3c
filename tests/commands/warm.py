"""A process that has loaded the commands and forks for each run of one, which takes a fifth of starting Python anew.

Used by :func:`tests.commands.processes.run`; started once by the conftest, as ``python -m tests.commands.warm FD``.
What is forked is a process of its own with pipes, folder, environment and exit code of its own, and has run nothing
before ``main``. How ``mcptrio`` starts from nothing, and at a terminal, is seen by the tests that do not use this.
The one rule: what Python itself reads when it starts cannot be given here: see :func:`fits`.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import frozen

__all__ = ["Warm", "fits", "warm"]

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("cli", "connecting", "server", "host", "config_file", "commands.plugin_server")
"""What the commands load, some of it late; the commands themselves are listed by ``mcptrio.cli``."""
START_SECONDS = 20.0
_REQUEST_BYTES = 1 << 20


def fits(environment: Mapping[str, str]) -> bool:
    """Whether a process that runs already can take this on: Python reads some of it only when it starts."""
    return all(
        os.environ.get(name) == value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LC_", "LANG"))
    )


@frozen
class Warm:
    """Our side."""

    _socket: socket.socket

    def run(
        self, args: Sequence[str], *, cwd: Path, environment: Mapping[str, str], stdin: bytes, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """``mcptrio`` with these arguments, to its end."""
        deadline = time.monotonic() + timeout
        pipes = [os.pipe() for _ in range(3)]
        (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err) = pipes
        request = json.dumps({"args": list(args), "cwd": str(cwd), "environment": dict(environment)}).encode()
        socket.send_fds(self._socket, [request], [theirs_in, theirs_out, theirs_err])
        for end in (theirs_in, theirs_out, theirs_err):
            os.close(end)
        pid = int(self._socket.recv(20))
        try:
            with suppress(BrokenPipeError):
                os.write(ours_in, stdin)
            os.close(ours_in)
            out, err = _read((ours_out, ours_err), deadline, args)
            self._socket.settimeout(max(deadline - time.monotonic(), 0.01))
            code = int(self._socket.recv(20))
        except BaseException:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise
        finally:
            os.close(ours_out)
            os.close(ours_err)
        return subprocess.CompletedProcess(list(args), code, out, err)


@contextmanager
def warm() -> Iterator[Warm]:
    """The process, as long as the context lasts."""
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
    """All that comes out of both, to the end."""
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


# Its side


def _serve(ours: socket.socket) -> None:
    """Fork for each request, until the tests have gone. In the child it returns, with everything in place."""
    ours.send(b"warm")
    while True:
        request, descriptors, _, _ = socket.recv_fds(ours, _REQUEST_BYTES, 3)
        if not request:
            sys.exit()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _become(json.loads(request), descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        ours.send(b"%d" % pid)
        _, status = os.waitpid(pid, 0)
        with suppress(BrokenPipeError):
            ours.send(b"%d" % os.waitstatus_to_exitcode(status))


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    # Where the tests themselves run in the background, Ctrl-C is ignored, and that is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["mcptrio", *request["args"]]
    sys.path[0] = request["cwd"]  # as of any `python -m`
    # Closed when the process ends, like those that Python itself opens.
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding=sys.stderr.encoding, errors=sys.stderr.errors)  # noqa: SIM115


if __name__ == "__main__":
    from importlib import import_module

    for module in COMMANDS:
        import_module(f"mcptrio.{module}")
    from mcptrio import cli

    for name in cli.COMMANDS:
        cli.cli.commands[name]
    gc.collect()
    gc.freeze()  # what is loaded here is none of a run's garbage
    _serve(socket.socket(fileno=int(sys.argv[1])))
    cli.main()
