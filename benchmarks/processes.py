"""A server's process: started, measured, ended.

The one rule: whatever happens to the measurement, no process is left behind.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from servers import ROOT, environment

__all__ = ["memory_of", "started"]

Process = subprocess.Popen[bytes]


@contextmanager
def started(python: Path, arguments: Sequence[str], *, pipes: bool) -> Iterator[Process]:
    """The process, with unbuffered pipes to its standard input and output or with none; killed at the end."""
    pipe = subprocess.PIPE if pipes else subprocess.DEVNULL
    process = subprocess.Popen(
        [python, *arguments],
        bufsize=0,
        cwd=ROOT,
        env=environment(),
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.send_signal(signal.SIGKILL)
        process.wait()


def memory_of(process: Process) -> float:
    """Resident memory, in MiB."""
    listed = subprocess.run(["ps", "-o", "rss=", "-p", str(process.pid)], check=True, capture_output=True, text=True)
    return int(listed.stdout) / 1024
