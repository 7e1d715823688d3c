"""The format of times on pages and in the output of commands."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["format_time"]


def format_time(seconds: float) -> str:
    """Return a time in seconds since 1970 as text, to the minute, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
