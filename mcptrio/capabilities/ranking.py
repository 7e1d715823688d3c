"""Ranks completion candidates. At most a hundred of them are sent.

``completion/complete`` uses this. Only the first 10,000 candidates are considered, and the first 1,000 characters of
each.

Source: MCP 2026-07-28, server/utilities/completion, "Completion Results" (at most 100 values, sorted by relevance).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from mcptrio.protocol.model.completion import Completion

__all__ = ["rank"]

_MAX_CANDIDATES = 10_000
_MAX_VALUES = 100
_MAX_CANDIDATE_CHARS = 1_000
_NO_MATCH = 99


def rank(candidates: Iterable[str], typed: str) -> Completion:
    """Return the candidates that match the typed text, best first.

    The order is: candidates that are equal to the text; that begin with it in the same case; that begin with it in any
    case; with a word that begins with it; that contain it; that contain its characters in order. Candidates with the
    same kind of match keep their order. An empty text matches all candidates.

    Args:
        candidates: The possible completions. Only the first 10,000 are considered; repetitions count once.

    Returns:
        The completion. ``total`` counts the matches among the considered candidates. ``has_more`` is true if there are
        more matches, or candidates that were not considered.
    """
    source = iter(candidates)
    # A dict, unlike a set, keeps the order.
    seen = dict.fromkeys(itertools.islice(source, _MAX_CANDIDATES))
    # At most one more item is read, because a generator may never end.
    has_unread = next(source, None) is not None
    folded = typed.casefold()
    kinds = ((_match_rank(candidate, typed, folded), candidate) for candidate in seen)
    # The sort is stable.
    matching = sorted((pair for pair in kinds if pair[0] != _NO_MATCH), key=lambda pair: pair[0])
    values = tuple(candidate for _, candidate in matching[:_MAX_VALUES])
    return Completion(values=values, total=len(matching), has_more=has_unread or len(matching) > len(values))


def _match_rank(candidate: str, typed: str, folded: str) -> int:
    """Return the kind of match: 0 for the best, :data:`_NO_MATCH` for none."""
    if not typed:
        return 0
    if candidate == typed:
        return 0
    text = candidate[:_MAX_CANDIDATE_CHARS]
    if text.startswith(typed):
        return 1
    lowered = text.casefold()
    if lowered.startswith(folded):
        return 2
    position = lowered.find(folded)
    if position >= 0:
        return 3 if _begins_a_word(text, lowered, folded, position) else 4
    # `in` consumes the iterator, so each search continues after the character that the last one found.
    remaining = iter(lowered)
    return 5 if all(character in remaining for character in folded) else _NO_MATCH


def _begins_a_word(text: str, lowered: str, folded: str, position: int) -> bool:
    """Return whether the text occurs after a character that is not a letter or digit, or at a camelCase capital."""
    same_length = len(text) == len(lowered)  # Folding may change the length, for example of the German sharp s.
    while position >= 0:
        if not lowered[position - 1].isalnum() or (
            same_length and text[position].isupper() and text[position - 1].islower()
        ):
            return True
        position = lowered.find(folded, position + 1)
    return False
