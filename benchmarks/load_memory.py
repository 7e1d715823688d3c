"""Measures the bytes of a session and of an open stream, by the growth of the server's memory."""

from __future__ import annotations

from collections.abc import Sequence

from crowd import allow, open_sessions, open_streams
from processes import Process, memory_of
from results import KIB, MIB, Figures
from scale import Scale
from servers import OURS, Server

__all__ = ["SESSION", "SESSIONS", "STREAM", "STREAMS", "measure_memory", "memory_row"]

SESSIONS = "sessions"
STREAMS = "streams"
SESSION = "memory of a handshake session, KiB"
STREAM = "memory of an open stream, KiB"


def memory_row(count: int, what: str) -> str:
    return f"memory with {count:,} {what}, MiB"


def measure_memory(server: Server, scale: Scale) -> Figures:
    counts = scale.sessions_of_ours if server.name == OURS.name else scale.sessions
    allow(counts[-1])
    with server.serving() as (process, port):
        growth = _Growth(process, counts)
        open_sessions(port, counts[-1], growth.look)
        figures = growth.figures(SESSION, SESSIONS)
    if server.listens:
        with server.serving() as (process, port):
            growth = _Growth(process, counts)
            with open_streams(port, counts[-1], growth.look):
                figures |= growth.figures(STREAM, STREAMS)
    return figures


class _Growth:
    """A process's memory at certain numbers of something."""

    def __init__(self, process: Process, counts: Sequence[int]) -> None:
        self._process = process
        self._counts = counts
        self._seen: dict[int, int] = {}

    def look(self, count: int) -> None:
        if count in self._counts:
            self._seen[count] = memory_of(self._process)

    def figures(self, one: str, many: str) -> Figures:
        """Return the bytes of one, from the first number to the last, and the total at each number."""
        first, last = self._counts[0], self._counts[-1]
        each = (self._seen[last] - self._seen[first]) / (last - first) / KIB
        return {one: [each], **{memory_row(count, many): [size / MIB] for count, size in self._seen.items()}}
