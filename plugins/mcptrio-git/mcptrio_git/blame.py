"""Parses the porcelain format of ``git blame`` into hunks.

The blame tool uses it. The output describes a commit only with its first line, so the parser stores the description for
the other lines.

Source: git-blame(1), "THE PORCELAIN FORMAT".
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from msgspec import Struct

from .text import text_of, truncate

__all__ = ["Blame", "Hunk", "parse_blame"]

_MAX_LINE_CHARS = 500


class Hunk(Struct, frozen=True, kw_only=True):
    """Consecutive lines of one commit.

    Attributes:
        commit: The id; null for uncommitted lines.
        date: The author's date, ISO 8601.
        start_line: The number of the first line, from 1.
    """

    commit: str | None
    author: str
    email: str
    date: str
    summary: str
    start_line: int
    lines: tuple[str, ...]


class Blame(Struct, frozen=True, kw_only=True):
    """A file, line by line.

    Attributes:
        truncated: There are more lines.
        next_cursor: The cursor of the next page.
    """

    path: str
    items: tuple[Hunk, ...]
    truncated: bool
    next_cursor: str | None


def parse_blame(output: bytes, max_count: int) -> list[Hunk]:
    """Return the hunks of at most ``max_count`` lines."""
    facts: dict[bytes, dict[bytes, bytes]] = {}
    hunks: list[Hunk] = []
    lines: list[str] = []
    current, count, start = b"", 0, 0
    for line in output.split(b"\n")[:-1]:
        if line.startswith(b"\t"):
            lines.append(truncate(text_of(line[1:]).rstrip("\r"), _MAX_LINE_CHARS))
            count += 1
            if count == max_count:
                break
            continue
        word, _, rest = line.partition(b" ")
        numbers = rest.split(b" ")
        if len(word) in (40, 64) and len(numbers) in (2, 3) and all(number.isdigit() for number in numbers):
            if word != current:
                _close(hunks, facts, current, start, lines)
                current, start, lines = word, int(numbers[1]), []
            facts.setdefault(word, {})
        else:
            facts[current][word] = rest
    _close(hunks, facts, current, start, lines)
    return hunks


def _close(
    hunks: list[Hunk], facts: dict[bytes, dict[bytes, bytes]], commit: bytes, start: int, lines: list[str]
) -> None:
    if not lines:
        return
    commit_facts = facts[commit]
    hunks.append(
        Hunk(
            commit=commit.decode("ascii") if commit.strip(b"0") else None,
            author=truncate(text_of(commit_facts.get(b"author", b"")), 500),
            email=truncate(text_of(commit_facts.get(b"author-mail", b"")).strip("<>"), 500),
            date=_date(commit_facts.get(b"author-time", b"0"), commit_facts.get(b"author-tz", b"+0000")),
            summary=truncate(text_of(commit_facts.get(b"summary", b"")), 1000),
            start_line=start,
            lines=tuple(lines),
        )
    )


def _date(seconds: bytes, zone: bytes) -> str:
    try:
        moment = datetime.fromtimestamp(int(seconds), UTC)
        minutes = int(zone[1:3]) * 60 + int(zone[3:5])
        return moment.astimezone(timezone(timedelta(minutes=-minutes if zone[:1] == b"-" else minutes))).isoformat()
    except (ValueError, OverflowError, OSError):  # a commit may contain any time
        return ""
