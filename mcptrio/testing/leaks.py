"""Detects threads, processes, descriptors and sockets that a test leaves behind.

Tests use the fixture ``mcp_nothing_left`` or ``with nothing_left():``. Tasks need no check, because ``trio.run`` waits
for them. Processes and descriptors are read from /proc, so only threads are checked on systems other than Linux.

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
"""Seconds for a killed process or a stopped thread to disappear."""

_IDLE_THREADS: Final = ("Trio thread ",)
"""Names of Trio's idle worker threads, which end after ten seconds. The name of a busy one is that of its function."""

_OPENED_BY_RUNTIME: Final = ("/dev/null", "/dev/urandom", "/dev/random", "anon_inode:inotify")
"""Targets of descriptors that libraries (hypothesis, uvloop, Node's cache) open once and never close."""

_PR_SET_CHILD_SUBREAPER: Final = 36


@frozen(kw_only=True)
class Holdings:
    """The threads, child processes and descriptors of this process at one time.

    Attributes:
        threads: Names of threads by id.
        processes: Commands of child processes by process id.
        descriptors: Targets of descriptors by number.
    """

    threads: dict[int, str]
    processes: dict[int, str]
    descriptors: dict[int, str]

    @classmethod
    def now(cls) -> Holdings:
        """Return the current state. Reading /proc takes one or two milliseconds."""
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
        """Return the threads, processes and descriptors that are not in ``before``, one line each."""
        return [
            *(f"thread {name}" for id, name in self.threads.items() if id not in before.threads),
            *(f"process {id} {command}" for id, command in self.processes.items() if id not in before.processes),
            # Also compared by target, because free numbers of descriptors are reused at once.
            *(f"descriptor {id} {to}" for id, to in self.descriptors.items() if before.descriptors.get(id) != to),
        ]


@contextmanager
def nothing_left(*, grace: float = END_TIMEOUT) -> Iterator[None]:
    """Verify that everything that was started or opened inside the context has ended at its end.

    Args:
        grace: Seconds for threads and processes to finish after the end of the context.

    Raises:
        AssertionError: Something is left; the message lists it.
    """
    before = Holdings.now()
    yield
    if not Holdings.now().since(before):
        return
    deadline = time.monotonic() + grace
    while True:
        # Objects in a reference cycle are not leaks. If such an object held a socket, a ResourceWarning reports it.
        gc.collect()
        leaks = Holdings.now().since(before)
        if not leaks:
            return
        if time.monotonic() >= deadline:
            raise AssertionError("left behind: " + "; ".join(leaks))
        time.sleep(0.01)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that :func:`nothing_left` sees them.

    Call it once, in the project's conftest.py. Works on Linux; does nothing elsewhere.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            # Otherwise init would become the parent of orphans.
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children() -> dict[int, str]:
    """Return the commands of the running child processes by process id.

    Processes that have ended do not count: nothing waits for an adopted orphan, and a Popen object without a wait emits
        a
    ResourceWarning.
    """
    if sys.platform != "linux":
        return {}
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        # There are no children, so /proc is not searched.
        return {}
    children: dict[int, str] = {}
    for directory in _possible_children():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            state, parent = (directory / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                children[int(directory.name)] = command.strip()
    return children


def _possible_children() -> list[Path]:
    """Return the /proc directories of this process's children, or of all processes."""
    try:
        # All lists are read before any child, because the children of a thread that ends get another thread as parent.
        lists = [(task / "children").read_bytes() for task in Path("/proc/self/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        # The kernel has no lists of children.
        return list(Path("/proc").glob("[0-9]*"))
    return [Path("/proc", id.decode()) for ids in lists for id in ids.split()]


def _descriptors() -> dict[int, str]:
    descriptors: dict[int, str] = {}
    with suppress(FileNotFoundError), os.scandir("/proc/self/fd") as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # the descriptor of the listing itself
                target = os.readlink(entry.path)
                if target not in _OPENED_BY_RUNTIME and not target.startswith(f"/proc/{os.getpid()}/"):
                    descriptors[int(entry.name)] = target
    return descriptors
