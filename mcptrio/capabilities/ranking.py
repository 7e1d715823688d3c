"""Ranks completion candidates; at most a hundred are sent.

completion/complete uses this. Only the first 10 000 candidates are considered, and the first 1 000 characters of each.

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
    """Choose and order the candidates for what was typed so far.

    In this order: equal, beginning with it (in the same case, then in any case), a word beginning with it,
    containing it, containing its characters in order. Candidates of one kind keep their order. An empty text
    matches everything. ``total`` counts the matches among the considered candidates; ``has_more`` is also true if
    candidates were not considered.

    Args:
        candidates: The possible completions. Only the first 10 000 are considered; repetitions count once.
    """
    source = iter(candidates)
    # A dict and not a set, because it keeps the order.
    seen = dict.fromkeys(itertools.islice(source, _MAX_CANDIDATES))
    # A generator may never end, so one more item is all that is read to know whether there are more.
    unseen = next(source, None) is not None
    folded = typed.casefold()
    kinds = ((_closeness(candidate, typed, folded), candidate) for candidate in seen)
    # The sort is stable.
    matching = sorted((pair for pair in kinds if pair[0] != _NO_MATCH), key=lambda pair: pair[0])
    values = tuple(candidate for _, candidate in matching[:_MAX_VALUES])
    return Completion(values=values, total=len(matching), has_more=unseen or len(matching) > len(values))


def _closeness(candidate: str, typed: str, folded: str) -> int:
    """Return the kind of match. A lower one is better."""
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
    # With an iterator, each `in` continues behind the character that the last one found.
    remaining = iter(lowered)
    return 5 if all(character in remaining for character in folded) else _NO_MATCH


def _begins_a_word(text: str, lowered: str, folded: str, position: int) -> bool:
    """Return whether the text occurs after a character that is not a letter or digit, or at a camelCase capital."""
    same_length = len(text) == len(lowered)  # Folding may change the length, as of the German sharp s.
    while position >= 0:
        if not lowered[position - 1].isalnum() or (
            same_length and text[position].isupper() and text[position - 1].islower()
        ):
            return True
        position = lowered.find(folded, position + 1)
    return False
