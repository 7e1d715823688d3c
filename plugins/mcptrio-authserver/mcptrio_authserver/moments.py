"""How pages and commands show a time."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["shown_moment"]


def shown_moment(seconds: float) -> str:
    """A time in seconds since 1970, to the minute, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
