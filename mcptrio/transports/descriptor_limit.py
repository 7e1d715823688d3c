"""The number of descriptors that this process may open, and the number of connections that follows from it.

The HTTP server uses it at its start. Without it, clients could take every descriptor long before the limit of
connections is reached, and stores, files and child processes would fail.
Source: getrlimit(2).
"""

from __future__ import annotations

import sys
from typing import Final

if sys.platform != "win32":
    import resource

__all__ = ["RESERVE", "max_connections", "raise_limit"]

RESERVE: Final = 256
"""Descriptors kept for everything but connections; a quarter of them all where there are fewer than 1024."""


def raise_limit(connections: int) -> None:
    """Raise the soft limit of this process, up to the hard limit, so that so many connections fit."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVE
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        pass  # macOS has a lower limit that it does not report; the server takes fewer connections then


def max_connections(connections: int) -> int:
    """Return how many of so many connections the descriptors allow, at least one."""
    if sys.platform == "win32":
        return connections
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, soft - min(RESERVE, soft // 4)))
