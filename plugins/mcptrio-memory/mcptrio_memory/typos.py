"""Finds known words that differ from a typed word by typing mistakes.

The search calls it if no entity contains the words of a query.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

__all__ = ["allowed_mistakes", "close_words", "without_diacritics"]

_MAX_LENGTH = 40
"""Maximum length of a word that is corrected. The time for a comparison grows with the square of the length."""
_MAX_CLOSE = 20
"""Maximum number of words that replace one word."""


def without_diacritics(word: str) -> str:
    """Return a word without diacritics, as the search index stores it."""
    return "".join(each for each in unicodedata.normalize("NFKD", word) if not unicodedata.combining(each))


def allowed_mistakes(word: str) -> int:
    """Return how many letters may be added, left out, replaced or swapped: 0 to 2, depending on the word's length."""
    return 0 if not 4 <= len(word) <= _MAX_LENGTH else 1 if len(word) < 8 else 2


def close_words(word: str, vocabulary: Iterable[str]) -> list[str]:
    """Return the known words that are close to a word, those with the fewest mistakes first."""
    max_mistakes = allowed_mistakes(word)
    if not max_mistakes:
        return []
    letters = set(word)
    candidates: list[tuple[int, str]] = []
    for each in vocabulary:
        # This test excludes almost all words, and is much faster than the edit distance.
        if abs(len(each) - len(word)) <= max_mistakes and len(letters.symmetric_difference(each)) <= 2 * max_mistakes:
            mistakes = _edit_distance(word, each)
            if mistakes <= max_mistakes:
                candidates.append((mistakes, each))
    return [each for _, each in sorted(candidates)[:_MAX_CLOSE]]


def _edit_distance(one: str, other: str) -> int:
    """Return the optimal string alignment distance."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        earlier, before, row = before, row, [index]
        for column, another in enumerate(other, 1):
            cost = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != another))
            if index > 1 and column > 1 and letter == other[column - 2] and one[index - 2] == another:
                cost = min(cost, earlier[column - 2] + 1)
            row.append(cost)
    return row[-1]
