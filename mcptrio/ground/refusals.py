"""Counts the HTTP requests that servers in this process refuse, by reason, for metrics.

The HTTP engine counts the requests that it refuses itself, such as malformed ones. The endpoint counts the others.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal, TypeAlias

__all__ = ["REFUSALS", "HTTPRefusalReason", "count_refusal"]

HTTPRefusalReason: TypeAlias = Literal[
    "authentication",
    "authorization",
    "host",
    "origin",
    "rate",
    "size",
    "session",
    "path",
    "timeout",
    "overloaded",
    "malformed",
    "failure",
]
"""``session``: the session is unknown or has ended. ``overloaded``: a limit of connections, exchanges, sessions or
requests is reached, or the server is stopping. ``malformed``: any other mistake of the client. ``failure``: an error of
the server."""

_BY_STATUS: Final[dict[int, HTTPRefusalReason]] = {
    401: "authentication",
    403: "authorization",
    404: "session",
    408: "timeout",
    413: "size",
    421: "host",
    429: "rate",
    431: "size",
    500: "failure",
    503: "overloaded",
}

REFUSALS: Counter[HTTPRefusalReason] = Counter()
"""Refused requests of this process, by reason."""


def count_refusal(status: int, reason: HTTPRefusalReason | None = None) -> None:
    """Count a refused request.

    Args:
        reason: The reason; ``None`` if it follows from the status.
    """
    # The answer to OPTIONS has status 204 and is no refusal.
    if status >= 400:
        REFUSALS[reason or _BY_STATUS.get(status, "malformed")] += 1
