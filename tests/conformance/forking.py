"""Runs of the client under test, forked from one process that has loaded it.

The conformance suite starts the client once a scenario, and loading it took half of the time of a run. The suite now
starts a small program, which hands its descriptors, environment and arguments to the process that forks.
Used by test_client.py. A run by hand starts the client itself; see client_runner.py.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

from tests.conformance import client

__all__ = ["forking"]

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
_REQUEST_BYTES = 1 << 20

STARTER = """\
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as forker:
    forker.connect(sys.argv[1])
    request = {"arguments": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd()}
    socket.send_fds(forker, [json.dumps(request).encode()], [0, 1, 2])
    # Without an answer the client was killed.
    sys.exit(int(forker.recv(20) or b"1"))
"""


@contextmanager
def forking(folder: Path) -> Iterator[tuple[str, ...]]:
    """Start a process that forks itself for each client, and yield the command that asks it for one.

    Args:
        folder: The folder for the program and the socket.
    """
    starter, path = folder / "start.py", folder / "forker"
    starter.write_text(STARTER)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.forking", str(listener.fileno())],
            cwd=ROOT,
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
        )
    try:
        yield (sys.executable, "-IS", str(starter), str(path))
    finally:
        process.kill()
        process.wait(START_SECONDS)


def _serve(listener: socket.socket) -> None:
    # The kernel reaps the children; the client itself reports its exit code.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run(connection)
        connection.close()


def _run(connection: socket.socket) -> None:
    """Be the client, and end."""
    code = 1
    try:
        data, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 3)
        request = json.loads(data)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = [client.__file__, *request["arguments"]]
        trio.run(client.main)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        with suppress(BrokenPipeError):
            connection.send(b"%d" % code)
        os._exit(code)


if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # a run neither scans the loaded modules nor copies their pages
    _serve(socket.socket(fileno=int(sys.argv[1])))
