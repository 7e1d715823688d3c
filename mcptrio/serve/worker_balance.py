"""Counters of each worker's connections in shared memory, with which workers balance new connections.

The parent has the :class:`ConnectionCounters`, each worker a :class:`ConnectionCounter`.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Final

__all__ = ["PAUSE_SECONDS", "ConnectionCounter", "ConnectionCounters"]

PAUSE_SECONDS: Final = 0.002
"""Seconds for which a worker with more connections than another waits before it accepts a new one, so that another
worker can accept it. Also the longest delay if the other workers are busy or have ended."""
# The counter of a worker that accepts no connections.
_ABSENT: Final = 2**63
# Bytes of one counter.
_BYTES: Final = 8
# A worker may have 1/16 more connections than the least loaded one. With an exact bound, it would pause for nearly
# every connection without effect.
_SLACK: Final = 16


class ConnectionCounters:
    """Shared memory with one counter per worker, for the parent."""

    def __init__(self, count: int) -> None:
        self.fd = _open_memory(count * _BYTES)
        self._memory = mmap.mmap(self.fd, count * _BYTES)
        self._numbers = memoryview(self._memory).cast("Q")
        self._free = list(range(count))
        for index in self._free:
            self._numbers[index] = _ABSENT

    def take(self) -> int:
        """Return a free index. There are as many indexes as processes that can run at one time."""
        return self._free.pop()

    def give_back(self, index: int) -> None:
        """Release the index of a worker that has ended."""
        self._numbers[index] = _ABSENT
        self._free.append(index)

    def close(self) -> None:
        self._numbers.release()
        self._memory.close()
        os.close(self.fd)


class ConnectionCounter:
    """One worker's counter, and access to the others.

    Args:
        fd: The descriptor of the memory; closed here.
        index: The index of this worker.
    """

    def __init__(self, fd: int, index: int) -> None:
        self._memory = mmap.mmap(fd, 0)
        os.close(fd)
        self._numbers = memoryview(self._memory).cast("Q")
        self._index = index
        self._left = False

    def pause(self, connections: int) -> float:
        """Return the seconds to wait before accepting the next connection: 0 or :data:`PAUSE_SECONDS`.

        Args:
            connections: The connections of this worker.
        """
        if self._left:
            return PAUSE_SECONDS
        # The kernel wakes all workers for a connection, and the fastest takes it. If a client opens several connections
        # at once and keeps them, one worker gets most (measured: 14 of 16 without the pause, 8 with it).
        numbers, index = self._numbers, self._index
        numbers[index] = connections
        # The minimum is the counter of a worker that accepts connections: at least this one does.
        return PAUSE_SECONDS if connections > min(numbers) + connections // _SLACK else 0.0

    def leave(self) -> None:
        """Mark this worker as accepting no more connections."""
        self._left = True
        self._numbers[self._index] = _ABSENT

    def close(self) -> None:
        self._numbers.release()
        self._memory.close()


def _open_memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("mcptrio")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd
