"""Detects threads, processes, descriptors and sockets that a test leaves behind.

Tests use the fixture ``mcp_nothing_left`` or ``with nothing_left():``. Tasks need no check, because ``trio.run`` waits
for them. Processes and descriptors are read from /proc; on other systems than Linux only threads are checked.

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

# Trio keeps idle worker threads for ten seconds. A busy worker has the name of its function, so an abandoned one is
# found.
_IDLE_THREADS: Final = ("Trio thread ",)

# Opened once by libraries (hypothesis, uvloop, Node's cache) and kept until the process ends.
_OPENED_BY_RUNTIME: Final = ("/dev/null", "/dev/urandom", "/dev/random", "anon_inode:inotify")

_PR_SET_CHILD_SUBREAPER: Final = 36


@frozen(kw_only=True)
class Holdings:
    """The threads, processes and descriptors of this process at one moment.

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
        """Return the current state. Takes one or two milliseconds to read /proc."""
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
        """Return what is new compared with ``before``, one line each."""
        return [
            *(f"thread {name}" for id, name in self.threads.items() if id not in before.threads),
            *(f"process {id} {command}" for id, command in self.processes.items() if id not in before.processes),
            # A free number is reused at once, so descriptors are compared by their targets as well.
            *(f"descriptor {id} {to}" for id, to in self.descriptors.items() if before.descriptors.get(id) != to),
        ]


@contextmanager
def nothing_left(*, grace: float = END_TIMEOUT) -> Iterator[None]:
    """Verify that everything started or opened inside the context has ended when it is left.

    Args:
        grace: Seconds after the end that threads and processes have to finish.

    Raises:
        AssertionError: Something is left; the message lists it.
    """
    before = Holdings.now()
    yield
    if not Holdings.now().since(before):
        return
    deadline = time.monotonic() + grace
    while True:
        # Objects in a reference cycle are not leaks; if one held a socket, its ResourceWarning reports it.
        gc.collect()
        left = Holdings.now().since(before)
        if not left:
            return
        if time.monotonic() >= deadline:
            raise AssertionError("left behind: " + "; ".join(left))
        time.sleep(0.01)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that :func:`nothing_left` sees them.

    Call it once, in the project's conftest.py. Works on Linux; does nothing elsewhere.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            # Otherwise orphans are handed to init and are no longer children of the test.
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children() -> dict[int, str]:
    # Processes that have ended do not count: nothing waits for an adopted orphan, and a Popen object whose child was
    # never waited for emits a ResourceWarning.
    if sys.platform != "linux":
        return {}
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        # The common case: no children, so /proc need not be searched.
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
        # All lists are read first: a thread that ends hands its children to another one, perhaps one that was already
        # read.
        lists = [(task / "children").read_bytes() for task in Path("/proc/self/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        # The kernel was built without lists of children.
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
