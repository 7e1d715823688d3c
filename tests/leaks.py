"""Nothing is left when a test ends: no thread, no process, no descriptor, no socket.

Used by every test through the autouse fixture ``nothing_left``, which tests/conftest.py and plugins/conftest.py import.
The one rule: what was there before the test may stay, what came with it must be gone. Tasks need no look: ``trio.run``
does not return while one lives, and a session-scoped fixture's process is there before its first test begins.

Source: proc(5); prctl(2), PR_SET_CHILD_SUBREAPER.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from attrs import frozen

__all__ = ["Holdings", "adopt_orphans", "nothing_left"]

GRACE_SECONDS = 2.0
"""A process that was killed, or a thread that was told to stop, may still be on its way out."""

IDLE_THREADS = ("Trio thread ",)
"""Trio keeps idle workers for ten seconds. A working one is named after its function, so an abandoned one shows."""

KEPT_OPEN = ("/dev/null", "/dev/urandom", "/dev/random", "anon_inode:inotify")
"""Opened once by a library (hypothesis, uvloop, Node's cache) and kept for the process."""

_PR_SET_CHILD_SUBREAPER = 36


@frozen(kw_only=True)
class Holdings:
    """What the process holds at one moment."""

    threads: dict[int, str]
    processes: dict[int, str]
    descriptors: dict[int, str]

    @classmethod
    def now(cls) -> Holdings:
        return cls(
            threads={
                thread.ident or 0: thread.name
                for thread in threading.enumerate()
                if not thread.name.startswith(IDLE_THREADS)
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


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fail the test that leaves something behind."""
    before = Holdings.now()
    yield
    left = Holdings.now().since(before)
    if not left:
        return
    # Garbage in a cycle is no leak of ours to report here; if it held a socket, its ResourceWarning is an error.
    gc.collect()
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := Holdings.now().since(before)) and time.monotonic() < deadline:
        time.sleep(0.01)
    if left:
        pytest.fail("left behind: " + "; ".join(left), pytrace=False)


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans, so that they are seen and not handed to init."""
    with suppress(OSError, AttributeError):  # not Linux: then only direct children are seen
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children() -> dict[int, str]:
    """Living children by id, with the command.

    One that has ended does not count: an adopted orphan has nobody else to wait for it, and a child of ours that nobody
    waited for has a Popen object whose ResourceWarning is an error.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return {}  # there are none: the common case, without reading a file for each process of the machine
    children: dict[int, str] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it is gone
            state, parent = (directory / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                children[int(directory.name)] = command.strip()
    return children


def _descriptors() -> dict[int, str]:
    found: dict[int, str] = {}
    with suppress(FileNotFoundError), os.scandir("/proc/self/fd") as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # the descriptor of this very listing
                target = os.readlink(entry.path)
                if target not in KEPT_OPEN and not target.startswith(f"/proc/{os.getpid()}/"):
                    found[int(entry.name)] = target
    return found
