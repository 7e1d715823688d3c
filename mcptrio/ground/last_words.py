"""The last lines of a child process's standard error, in the reason why its connection ended.

The child transport appends them. A mount removes them before its clients get the reason: standard error is for the
operator, and may contain the process's arguments and environment.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["LAST_WORDS", "last_reason", "split_last_words", "with_last_words", "without_last_words"]

LAST_WORDS = "; it said: "
"""Separates the reason from the last lines of standard error."""
_SEPARATOR = " | "
_MAX_CHARACTERS = 600
"""Of the lines together; the last ones are kept."""

_REASON = "mcptrio: "
"""Begins the line in which a command of mcptrio says why it ends."""


def last_reason(lines: Sequence[str]) -> str | None:
    """Return why a command of mcptrio ended, from its standard error; ``None`` if it did not say."""
    reasons = [line for line in lines if line.startswith(_REASON)]
    return reasons[-1].removeprefix(_REASON) if reasons else None


def with_last_words(reason: str, lines: Sequence[str]) -> str:
    """Return a reason with the last lines of standard error, all on one line."""
    output = _SEPARATOR.join([line.strip() for line in lines])
    # The end and not the beginning: the cause of a crash is in the last line.
    shortened = output if len(output) <= _MAX_CHARACTERS else f"…{output[-_MAX_CHARACTERS:]}"
    return f"{reason}{LAST_WORDS}{shortened}" if output else reason


def split_last_words(reason: str) -> tuple[str, list[str]]:
    """Return a reason without the lines of standard error, and the lines."""
    reason, _, output = reason.partition(LAST_WORDS)
    return reason, output.split(_SEPARATOR) if output else []


def without_last_words(reason: str) -> str:
    """Return a reason without the lines of standard error that follow it."""
    return reason.partition(LAST_WORDS)[0]
