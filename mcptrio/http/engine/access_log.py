"""The access log: one line per request, written later by one task.

The server owns it. A request only queues its data, so it never waits for the log. When :data:`MAX_PENDING_LINES`
requests are queued, further ones are only counted.
"""

from __future__ import annotations

import logging
from collections import deque
from time import time
from typing import Final

import trio

__all__ = ["ACCESS", "AccessLog", "shown_client"]

ACCESS: Final = logging.getLogger("mcptrio.http.access")
"""Gets lines of level INFO such as ``127.0.0.1:51234 "POST /mcp" 200 1.4 ms tools/call add``. Queries and headers are
not logged, because they may contain secrets."""

MAX_PENDING_LINES: Final = 10_000


class AccessLog:
    """Collects one line per request, to be written later by one task.

    Args:
        wanted: True if the operator wants an access log.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted and ACCESS.isEnabledFor(logging.INFO)
        self._lines: deque[tuple[float, str, str, str, int, float, str]] = deque()
        self._lost = 0

    def add(self, client: object, method: str, path: str, status: int, began: float, note: str) -> None:
        """Queue the line of a request that has been answered.

        Args:
            client: The client's address, in the form of an ASGI scope.
            began: The time of the request's start, on Trio's clock.
            note: A text that is appended to the line.
        """
        if len(self._lines) < MAX_PENDING_LINES:
            seconds = trio.current_time() - began
            self._lines.append((time(), shown_client(client), method, path, status, seconds, note))
        else:
            self._lost += 1

    def write(self) -> None:
        """Write the queued lines."""
        while self._lines:
            ended, client, method, path, status, seconds, note = self._lines.popleft()
            template = '%s "%s %s" %d %.1f ms' + (" %s" if note else "")
            # A decoded path may contain line ends, and a name any character. A client must not forge log lines.
            args = (client, method, _escape(path), status, seconds * 1000, *([_escape(note)] if note else []))
            # The functions of logging accept no timestamp, so the record is made here.
            record = ACCESS.makeRecord(ACCESS.name, logging.INFO, __file__, 0, template, args, None)
            # The time at which the request ended. The line is written up to a second later.
            record.created, record.msecs = ended, (ended % 1) * 1000
            ACCESS.handle(record)
        if self._lost:
            # An operator must be able to see that the log is incomplete.
            ACCESS.warning("%d more requests were not logged", self._lost)
            self._lost = 0


def _escape(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def shown_client(client: object) -> str:
    """Return the address of a client for the log.

    Args:
        client: The client's address, in the form of an ASGI scope.
    """
    if not isinstance(client, tuple) or client[1] is None:
        return "unix"
    host, port = client
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
