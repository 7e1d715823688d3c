"""Finds the place in a text that is most like a text that was not found in it.

The edit tool shows it, so that a model can correct its edit without reading the file again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from .errors import printable
from .reading import Checkpoint

__all__ = ["nearest"]

_MAX_SHOWN = 40
"""Lines that are shown."""
_MAX_LINE = 300
"""Characters of a shown line."""
_WANTED = 200
"""Lines of the wanted text that are compared."""
_LINES_PER_CHECK = 4096
"""Lines between two checks for a cancellation."""
_WORD = re.compile(r"\w+")


def nearest(lines: Sequence[str], wanted: str, checkpoint: Checkpoint) -> str:
    """The lines of a text that are most like ``wanted``, each with its number; empty if nothing is like it.

    Each line of the text votes for the place where ``wanted`` would begin if the line were the equal one of it, or the
    one with most of its words. So the cost grows with the text, not with its product with ``wanted``.
    """
    lines_wanted = wanted.strip("\n").split("\n")[:_WANTED]
    begins = _by_equal_lines(lines, lines_wanted, checkpoint)
    if begins is None:
        begins = _by_words(lines, lines_wanted, checkpoint)
    if begins is None:
        return ""
    first = max(0, min(begins, len(lines) - 1))
    shown = lines[first : first + min(len(lines_wanted), _MAX_SHOWN)]
    return "\n".join(f"{first + number}: {printable(line, _MAX_LINE)}" for number, line in enumerate(shown, 1))


def _by_equal_lines(lines: Sequence[str], wanted: Sequence[str], checkpoint: Checkpoint) -> int | None:
    places: dict[str, int] = {}
    for index, line in enumerate(wanted):
        # A line of punctuation, such as a closing brace, is everywhere.
        if _WORD.search(line):
            places.setdefault(line.strip(), index)
    votes: Counter[int] = Counter()
    for number, line in enumerate(lines):
        if number % _LINES_PER_CHECK == 0:
            checkpoint()
        place = places.get(line.strip())
        if place is not None:
            votes[number - place] += 1
    # Of equal counts the first place wins.
    return max(votes, key=lambda begins: (votes[begins], -begins), default=None)


def _by_words(lines: Sequence[str], wanted: Sequence[str], checkpoint: Checkpoint) -> int | None:
    index = max(range(len(wanted)), key=lambda number: len(wanted[number].strip()))
    words = set(_WORD.findall(wanted[index][:_MAX_LINE]))
    best, found = 0.0, None
    for number, line in enumerate(lines):
        if number % _LINES_PER_CHECK == 0:
            checkpoint()
        own = set(_WORD.findall(line[:_MAX_LINE]))
        common = len(words & own)
        likeness = common / len(words | own) if common else 0.0
        if likeness > best:
            best, found = likeness, number - index
    return found
