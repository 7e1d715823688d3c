"""The limit on open file descriptors of this process, and the number of connections that it allows.

The HTTP server applies it when it starts. Otherwise clients could use all descriptors before the connection limit is
reached, and stores, files and child processes would fail.

Source: getrlimit(2).
"""

from __future__ import annotations

import sys
from typing import Final

if sys.platform != "win32":
    import resource

__all__ = ["RESERVE", "max_connections", "raise_limit"]

RESERVE: Final = 256
"""Descriptors that are not used for connections; a quarter of the limit if that is less than this."""


def raise_limit(connections: int) -> None:
    """Raise the soft limit of this process towards the hard limit, so that ``connections`` connections fit."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = connections + RESERVE
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError):
        pass  # macOS has a lower limit that getrlimit() does not report; the server then accepts fewer connections


def max_connections(connections: int) -> int:
    """Return the number of connections that the descriptors allow: at most ``connections``, at least one."""
    if sys.platform == "win32":
        return connections
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, soft - min(RESERVE, soft // 4)))
