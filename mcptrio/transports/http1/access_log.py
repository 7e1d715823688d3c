"""One line for each request, written when there is time.

Kept by the server; a request only leaves its figures here.
The one rule: nobody waits for the log. Of more requests than :data:`KEPT` between two writings the rest is counted.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

import trio

__all__ = ["ACCESS", "AccessLog"]

ACCESS: Final = logging.getLogger("mcptrio.http.access")
"""At level INFO: ``127.0.0.1:51234 "POST /mcp" 200 1.4 ms``; without queries and headers, which may hold secrets."""

KEPT: Final = 10_000


class AccessLog:
    """
    Args:
        wanted: whether there is one.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted and ACCESS.isEnabledFor(logging.INFO)
        self._lines: deque[tuple[str, str, str, int, float]] = deque()
        self._lost = 0

    def add(self, client: str, method: str, path: str, status: int, began: float) -> None:
        """Remember a request that has been answered.

        Args:
            began: trio time.
        """
        if len(self._lines) < KEPT:
            self._lines.append((client, method, path, status, trio.current_time() - began))
        else:
            self._lost += 1

    def write(self) -> None:
        """Write what is remembered."""
        while self._lines:
            client, method, path, status, seconds = self._lines.popleft()
            # A path may hold line ends once it is decoded.
            ACCESS.info(
                '%s "%s %s" %d %.1f ms',
                client,
                method,
                path.encode("unicode_escape").decode("ascii"),
                status,
                seconds * 1000,
            )
        if self._lost:
            ACCESS.warning("%d more requests were not logged", self._lost)
            self._lost = 0
