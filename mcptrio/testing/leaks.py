"""Nothing is left when a test ends: no thread, no process, no descriptor, no socket.

Used through the fixture ``mcp_nothing_left``, or ``with nothing_left():``.
The one rule: what was there before may stay, what came meanwhile must be gone. Tasks need no look: ``trio.run`` does
not return while one lives, and a session-scoped fixture's process is there before its first test begins.

Processes and descriptors are read from /proc, so elsewhere than on Linux only threads are seen.

Source: proc(5); prctl(2), PR_SET_CHILD_SUBREAPER.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = ["Holdings", "adopt_orphans", "nothing_left"]

END_TIMEOUT: Final = 2.0
"""Seconds for a process that was killed, or a thread that was told to stop, to be gone."""

_IDLE_THREADS: Final = ("Trio thread ",)
"""Trio keeps idle workers for ten seconds. A working one is named after its function, so an abandoned one shows."""

_OPENED_BY_RUNTIME: Final = ("/dev/null", "/dev/urandom", "/dev/random", "anon_inode:inotify")
"""Opened once by a library (hypothesis, uvloop, Node's cache) and kept for the process."""

_PR_SET_CHILD_SUBREAPER: Final = 36


@frozen(kw_only=True)
class Holdings:
    """What the process holds at one moment."""

    threads: dict[int, str]
    processes: dict[int, str]
    descriptors: dict[int, str]

    @classmethod
    def now(cls) -> Holdings:
        """What it holds now. Reads /proc where there is one, in a millisecond or two."""
        return cls(
            threads={
                thread.ident or 0: thread.name
                for thread in threading.enumerate()
                if not thread.name.startswith(_IDLE_THREADS)
            },
            processes=_children(),
            descriptors=_descriptors(),
        )

    def since(self, before: Holdings) -> list[str]:
        """What has come since, one line each."""
        return [
            *(f"thread {name}" for id, name in self.threads.items() if id not in before.threads),
            *(f"process {id} {command}" for id, command in self.processes.items() if id not in before.processes),
            # A number is reused as soon as it is free; it is the same one only if it leads to the same thing.
            *(f"descriptor {id} {to}" for id, to in self.descriptors.items() if before.descriptors.get(id) != to),
        ]


@contextmanager
def nothing_left(*, grace: float = END_TIMEOUT) -> Iterator[None]:
    """What comes inside is gone at the end.

    Args:
        grace: seconds after the end in which it may still go.

    Raises:
        AssertionError: something is left; what.
    """
    before = Holdings.now()
    yield
    if not Holdings.now().since(before):
        return
    deadline = time.monotonic() + grace
    while True:
        # Garbage in a cycle is no leak to report here; if it held a socket, its ResourceWarning tells.
        gc.collect()
        left = Holdings.now().since(before)
        if not left:
            return
        if time.monotonic() >= deadline:
            raise AssertionError("left behind: " + "; ".join(left))
        time.sleep(0.01)


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans, so that they are seen and not handed to init.

    Call it once, in the project's conftest.py. Only Linux can; elsewhere nothing happens.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children() -> dict[int, str]:
    """Living children by id, with the command.

    One that has ended does not count: an adopted orphan has nobody else to wait for it, and a child that nobody waited
    for has a Popen object whose ResourceWarning tells.
    """
    if sys.platform != "linux":
        return {}
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return {}  # there are none: the common case
    children: dict[int, str] = {}
    for directory in _possible_children():
        with suppress(FileNotFoundError, ProcessLookupError):  # it is gone
            state, parent = (directory / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                children[int(directory.name)] = command.strip()
    return children


def _possible_children() -> list[Path]:
    """The directories of our children, or of all processes if the kernel does not list children."""
    try:
        # A thread that ends meanwhile hands its children to another one, which may have been read already.
        lists = [(task / "children").read_bytes() for task in Path("/proc/self/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return list(Path("/proc").glob("[0-9]*"))
    return [Path("/proc", id.decode()) for ids in lists for id in ids.split()]


def _descriptors() -> dict[int, str]:
    found: dict[int, str] = {}
    with suppress(FileNotFoundError), os.scandir("/proc/self/fd") as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # the descriptor of this very listing
                target = os.readlink(entry.path)
                if target not in _OPENED_BY_RUNTIME and not target.startswith(f"/proc/{os.getpid()}/"):
                    found[int(entry.name)] = target
    return found
