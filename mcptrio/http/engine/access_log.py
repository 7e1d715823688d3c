"""The access log: one line per request, written later by one task.

The server keeps it, and a request only adds its data. Requests never wait for the log: beyond
:data:`MAX_PENDING_LINES` between two writes, further requests are only counted.
"""

from __future__ import annotations

import logging
from collections import deque
from time import time
from typing import Final

import trio

__all__ = ["ACCESS", "AccessLog", "shown_client"]

ACCESS: Final = logging.getLogger("mcptrio.http.access")
"""At level INFO: ``127.0.0.1:51234 "POST /mcp" 200 1.4 ms tools/call add``; without queries and headers, which may hold
secrets."""

MAX_PENDING_LINES: Final = 10_000


class AccessLog:
    """
    Args:
        wanted: whether there is one.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted and ACCESS.isEnabledFor(logging.INFO)
        self._lines: deque[tuple[float, str, str, str, int, float, str]] = deque()
        self._lost = 0

    def add(self, client: object, method: str, path: str, status: int, began: float, note: str) -> None:
        """Remember a request that has been answered.

        Args:
            client: its address as ASGI has it.
            began: trio time.
            note: appended to the line.
        """
        if len(self._lines) < MAX_PENDING_LINES:
            seconds = trio.current_time() - began
            self._lines.append((time(), shown_client(client), method, path, status, seconds, note))
        else:
            self._lost += 1

    def write(self) -> None:
        """Write what is remembered."""
        while self._lines:
            ended, client, method, path, status, seconds, note = self._lines.popleft()
            said = '%s "%s %s" %d %.1f ms' + (" %s" if note else "")
            # A path may hold line ends once it is decoded, and a name anything.
            args = (client, method, _escaped(path), status, seconds * 1000, *([_escaped(note)] if note else []))
            record = ACCESS.makeRecord(ACCESS.name, logging.INFO, __file__, 0, said, args, None)
            # The time at which the request ended, not the time of this write.
            record.created, record.msecs = ended, (ended % 1) * 1000
            ACCESS.handle(record)
        if self._lost:
            ACCESS.warning("%d more requests were not logged", self._lost)
            self._lost = 0


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def shown_client(client: object) -> str:
    """Return the address of a client for the log.

    Args:
        client: as ASGI has it.
    """
    if not isinstance(client, tuple) or client[1] is None:
        return "unix"
    host, port = client
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
