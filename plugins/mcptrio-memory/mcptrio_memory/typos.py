"""Words that differ from a typed one by a typing mistake.

The search uses it if nothing contains the words of a query.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

__all__ = ["allowed_mistakes", "close_words", "plain"]

_MAX_LENGTH = 40
"""Letters of a word that is corrected; the cost of a comparison grows with their square."""
_MAX_CLOSE = 20
"""Words that one word is corrected to."""


def plain(word: str) -> str:
    """A word as the search index has it: without diacritics."""
    return "".join(each for each in unicodedata.normalize("NFKD", word) if not unicodedata.combining(each))


def allowed_mistakes(word: str) -> int:
    """Return how many letters may be added, left out, exchanged or swapped: up to two, by the length of the word."""
    return 0 if not 4 <= len(word) <= _MAX_LENGTH else 1 if len(word) < 8 else 2


def close_words(word: str, known: Iterable[str]) -> list[str]:
    """The known words that a word may stand for, those with the fewest mistakes first."""
    most = allowed_mistakes(word)
    if not most:
        return []
    letters = set(word)
    found: list[tuple[int, str]] = []
    for each in known:
        # Rules out almost all words in a fraction of the time of the comparison.
        if abs(len(each) - len(word)) <= most and len(letters.symmetric_difference(each)) <= 2 * most:
            mistakes = _mistakes(word, each)
            if mistakes <= most:
                found.append((mistakes, each))
    return [each for _, each in sorted(found)[:_MAX_CLOSE]]


def _mistakes(one: str, other: str) -> int:
    """The optimal string alignment distance."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        earlier, before, row = before, row, [index]
        for place, another in enumerate(other, 1):
            cost = min(before[place] + 1, row[-1] + 1, before[place - 1] + (letter != another))
            if index > 1 and place > 1 and letter == other[place - 2] and one[index - 2] == another:
                cost = min(cost, earlier[place - 2] + 1)
            row.append(cost)
    return row[-1]
