"""Starts, measures and ends the process of a server.

No process is left behind, whatever happens to the measurement.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from environments import ROOT, cleaned

__all__ = ["Process", "descriptors_of", "free_port", "memory_of", "shared_memory_of", "started", "wait_for"]

Process = subprocess.Popen[bytes]
_START = 60.0
"""Seconds for a server to come up."""
_LAST = 2000
"""Bytes of what a process says that are kept for an error."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@contextmanager
def started(
    interpreter: Path, arguments: Sequence[str], *, pipes: bool, variables: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Start a process, with unbuffered pipes to its standard input and output or without, and kill it at the end.

    Raises:
        RuntimeError: The block failed, and the process had exited; with its last output.
    """
    pipe = subprocess.PIPE if pipes else subprocess.DEVNULL
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [interpreter, *arguments],
            bufsize=0,
            cwd=ROOT,
            env=cleaned(**(variables or {})),
            stdin=pipe,
            stdout=pipe,
            stderr=errors,
        )
        try:
            yield process
        except (RuntimeError, OSError) as error:
            # A process closes its sockets first, and exits a moment later.
            time.sleep(0.1)
            if process.poll() is None:
                raise
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST))
            message = errors.read().decode(errors="replace").strip()
            raise RuntimeError(f"ended with {process.returncode}: {message or error}") from error
        finally:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            process.kill()
            process.wait()


def memory_of(process: Process) -> int:
    """Return the resident memory (RSS) in bytes, with shared libraries."""
    return int(Path(f"/proc/{process.pid}/statm").read_text("ascii").split()[1]) * _PAGE


def shared_memory_of(process: Process) -> int:
    """Return the proportional memory (PSS) in bytes: a page that processes share counts in part for each of them.

    So the sum of several processes is their common memory.
    """
    for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text("ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "Pss":
            return int(rest.split()[0]) << 10
    raise RuntimeError(f"expected Pss in /proc/{process.pid}/smaps_rollup")


def descriptors_of(process: Process) -> int:
    """Return the number of open descriptors."""
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def wait_for(port: int, process: Process) -> None:
    """Wait until the process listens on the port.

    Raises:
        RuntimeError: The process has ended.
        TimeoutError: The time has expired.
    """
    deadline = time.perf_counter() + _START
    while process.poll() is None:
        with socket.socket() as connection:
            # On a free port, a TCP connection can connect to itself.
            if connection.connect_ex(("127.0.0.1", port)) == 0 and connection.getsockname()[1] != port:
                return
        if time.perf_counter() > deadline:
            raise TimeoutError(f"expected a server on port {port} within {_START:g} s")
        time.sleep(0.02)
    raise RuntimeError(f"ended with {process.returncode} while it was waited for")
