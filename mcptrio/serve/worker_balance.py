"""How many connections each worker has, for all of them to see, so that none takes more than its share.

The kernel wakes all workers for a connection, and the first one that looks takes it. That is fair when all are busy; of
a few connections that are opened at once and kept, as clients do, one worker gets most (measured: 14 of 16, and 8 with
this). So a worker that has more than another leaves the next one to the others, for :data:`PAUSE_SECONDS`; then
it takes it.
The one rule: nobody waits for a worker that is busy or gone for longer than that.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Final

__all__ = ["PAUSE_SECONDS", "Board", "BoardPlace"]

PAUSE_SECONDS: Final = 0.002
"""Seconds in which the others may take a connection."""
_ABSENT: Final = 2**63
"""Of one that accepts nothing."""
_BYTES: Final = 8
_SLACK: Final = 16
"""One of so many connections may be more than the share, or all of a worker's waits would be for nothing."""


class Board:
    """A piece of memory with a number for each worker. The parent's."""

    def __init__(self, places: int) -> None:
        self.fd = _open_memory(places * _BYTES)
        self._memory = mmap.mmap(self.fd, places * _BYTES)
        self._numbers = memoryview(self._memory).cast("Q")
        self._free = list(range(places))
        for place in self._free:
            self._numbers[place] = _ABSENT

    def take(self) -> int:
        """A free place. There are as many as processes at one time."""
        return self._free.pop()

    def give_back(self, place: int) -> None:
        """The worker is gone."""
        self._numbers[place] = _ABSENT
        self._free.append(place)

    def close(self) -> None:
        self._numbers.release()
        self._memory.close()
        os.close(self.fd)


class BoardPlace:
    """The worker's part: its own number, and the look at the others.

    Args:
        fd: of the memory; closed here.
    """

    def __init__(self, fd: int, place: int) -> None:
        self._memory = mmap.mmap(fd, 0)
        os.close(fd)
        self._numbers = memoryview(self._memory).cast("Q")
        self._place = place
        self._left = False

    def pause(self, connections: int) -> float:
        """Seconds to wait before the next connection is accepted: none, or :data:`PAUSE_SECONDS`.

        Args:
            connections: that this worker has now.
        """
        if self._left:
            return PAUSE_SECONDS
        numbers, place = self._numbers, self._place
        numbers[place] = connections
        # Of the workers that accept one is always found: this one.
        return PAUSE_SECONDS if connections > min(numbers) + connections // _SLACK else 0.0

    def leave(self) -> None:
        """This worker accepts nothing more."""
        self._left = True
        self._numbers[self._place] = _ABSENT

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
