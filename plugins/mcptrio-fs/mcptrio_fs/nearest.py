"""Finds the lines that are most similar to a text that was not found.

The edit tool shows them, so that a model can correct its edit without reading the file again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from .errors import printable
from .reading import Checkpoint

__all__ = ["nearest"]

_MAX_SHOWN = 40
"""Maximum number of lines that are shown."""
_MAX_LINE = 300
"""Maximum number of characters of a line that are shown and compared."""
_WANTED = 200
"""Maximum number of lines of the wanted text that are compared."""
_LINES_PER_CHECK = 4096
"""Lines between two checks for a cancellation."""
_WORD = re.compile(r"\w+")


def nearest(lines: Sequence[str], wanted: str, checkpoint: Checkpoint) -> str:
    """Return the lines that are most similar to ``wanted``, each with its number; empty if no line is similar.

    Each line that also occurs in ``wanted`` votes for the line at which ``wanted`` would begin. If no line does, the
    line with the most words of the longest wanted line decides. The time grows with the length of the text, and is
    independent of the length of ``wanted``.
    """
    lines_wanted = wanted.strip("\n").split("\n")[:_WANTED]
    start = _by_equal_lines(lines, lines_wanted, checkpoint)
    if start is None:
        start = _by_words(lines, lines_wanted, checkpoint)
    if start is None:
        return ""
    first = max(0, min(start, len(lines) - 1))
    excerpt = lines[first : first + min(len(lines_wanted), _MAX_SHOWN)]
    return "\n".join(f"{first + number}: {printable(line, _MAX_LINE)}" for number, line in enumerate(excerpt, 1))


def _by_equal_lines(lines: Sequence[str], wanted: Sequence[str], checkpoint: Checkpoint) -> int | None:
    wanted_indexes: dict[str, int] = {}
    for index, line in enumerate(wanted):
        # A line of punctuation, such as a closing brace, occurs too often to be a hint.
        if _WORD.search(line):
            wanted_indexes.setdefault(line.strip(), index)
    votes: Counter[int] = Counter()
    for number, line in enumerate(lines):
        if number % _LINES_PER_CHECK == 0:
            checkpoint()
        wanted_index = wanted_indexes.get(line.strip())
        if wanted_index is not None:
            votes[number - wanted_index] += 1
    # If two starts have equally many votes, the first one wins.
    return max(votes, key=lambda start: (votes[start], -start), default=None)


def _by_words(lines: Sequence[str], wanted: Sequence[str], checkpoint: Checkpoint) -> int | None:
    index = max(range(len(wanted)), key=lambda number: len(wanted[number].strip()))
    words = set(_WORD.findall(wanted[index][:_MAX_LINE]))
    best, best_index = 0.0, None
    for number, line in enumerate(lines):
        if number % _LINES_PER_CHECK == 0:
            checkpoint()
        line_words = set(_WORD.findall(line[:_MAX_LINE]))
        common = len(words & line_words)
        likeness = common / len(words | line_words) if common else 0.0
        if likeness > best:
            best, best_index = likeness, number - index
    return best_index
