"""Appends the last lines of a child process's standard error to the reason why its connection ended.

The child transport appends them. A mount removes them before its clients receive the reason: standard error is for the
operator, and may contain the process's arguments and environment.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["STDERR_MARK", "append_stderr", "exit_reason", "remove_stderr", "split_stderr"]

STDERR_MARK = "; it said: "
"""Separates the reason from the last lines of standard error."""
_SEPARATOR = " | "
_MAX_CHARACTERS = 600
"""Characters of all lines together; the last ones are kept."""

_REASON = "mcptrio: "
"""The beginning of the line in which a command of mcptrio writes why it ends."""


def exit_reason(lines: Sequence[str]) -> str | None:
    """Return the reason that a command of mcptrio wrote to its standard error; ``None`` if there is none."""
    reasons = [line for line in lines if line.startswith(_REASON)]
    return reasons[-1].removeprefix(_REASON) if reasons else None


def append_stderr(reason: str, lines: Sequence[str]) -> str:
    """Return a reason followed by the last lines of standard error, all on one line."""
    output = _SEPARATOR.join([line.strip() for line in lines])
    # The beginning is cut, because the cause of a crash is in the last line.
    shortened = output if len(output) <= _MAX_CHARACTERS else f"…{output[-_MAX_CHARACTERS:]}"
    return f"{reason}{STDERR_MARK}{shortened}" if output else reason


def split_stderr(reason: str) -> tuple[str, list[str]]:
    """Split a reason into the reason alone and the lines of standard error."""
    reason, _, output = reason.partition(STDERR_MARK)
    return reason, output.split(_SEPARATOR) if output else []


def remove_stderr(reason: str) -> str:
    """Return a reason without the lines of standard error."""
    return reason.partition(STDERR_MARK)[0]
