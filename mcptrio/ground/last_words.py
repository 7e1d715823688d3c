"""The last words of a child process in the reason why its connection ended.

The child transport appends them to the reason. A mount removes them before it tells the reason to its clients: what a
program writes to standard error is for the operator, and may repeat its arguments and its environment.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["LAST_WORDS", "last_reason", "without_last_words"]

LAST_WORDS = "; it said: "
"""Stands between the reason and the last lines of standard error."""


_REASON = "mcptrio: "
"""Begins the line in which a command of mcptrio says why it ends."""


def last_reason(lines: Sequence[str]) -> str | None:
    """Return why a command of mcptrio ended, from its standard error; ``None`` if it did not say."""
    reasons = [line for line in lines if line.startswith(_REASON)]
    return reasons[-1].removeprefix(_REASON) if reasons else None


def without_last_words(reason: str) -> str:
    """Return a reason without the lines of standard error that follow it."""
    return reason.partition(LAST_WORDS)[0]
