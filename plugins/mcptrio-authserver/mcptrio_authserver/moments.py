"""Times as pages and commands show them."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["shown_moment"]


def shown_moment(seconds: float) -> str:
    """Return a time in seconds since 1970 as text, to the minute, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
