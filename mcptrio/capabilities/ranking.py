"""Ranks completion candidates; at most a hundred are sent.

completion/complete uses this. Only the first 10 000 candidates are considered, and the first 1 000 characters of each.

Source: MCP 2026-07-28, server/utilities/completion, "Completion Results" (at most 100 values, sorted by relevance).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from attrs import frozen

__all__ = ["Ranked", "rank"]

_MAX_CANDIDATES = 10_000
_MAX_VALUES = 100
_MAX_CANDIDATE_CHARS = 1_000
_NO_MATCH = 99


@frozen
class Ranked:
    """The best candidates."""

    values: tuple[str, ...]
    total: int
    """The number of matches among the considered candidates."""
    has_more: bool
    """Whether matches or unconsidered candidates are left out."""


def rank(candidates: Iterable[str], typed: str, *, limit: int = _MAX_VALUES) -> Ranked:
    """Choose and order the candidates for what was typed so far.

    In this order: equal, beginning with it (in the same case, then in any case), a word beginning with it,
    containing it, containing its characters in order. Candidates of one kind keep their order. An empty text
    matches everything.

    Args:
        candidates: only the first 10 000 are considered; repetitions count once.
        limit: values returned, 0 to 100.
    """
    limit = max(0, min(limit, _MAX_VALUES))
    source = iter(candidates)
    # A dict and not a set, because it keeps the order.
    seen = dict.fromkeys(itertools.islice(source, _MAX_CANDIDATES))
    # A generator may never end, so one more item is all that is read to know whether there are more.
    unseen = next(source, None) is not None
    folded = typed.casefold()
    matching: list[tuple[int, str]] = []
    for candidate in seen:
        kind = _closeness(candidate, typed, folded)
        if kind != _NO_MATCH:
            matching.append((kind, candidate))
    matching.sort(key=lambda pair: pair[0])  # stable
    values = tuple(candidate for _, candidate in matching[:limit])
    return Ranked(values, len(matching), unseen or len(matching) > len(values))


def _closeness(candidate: str, typed: str, folded: str) -> int:
    """Return the kind of match; lower is better."""
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
    # An iterator: each `in` continues behind the character that the last one found.
    remaining = iter(lowered)
    return 5 if all(character in remaining for character in folded) else _NO_MATCH


def _begins_a_word(text: str, lowered: str, folded: str, position: int) -> bool:
    """Return whether the text occurs after a character that is no letter or digit, or at a capital of camelCase."""
    same_length = len(text) == len(lowered)  # folding may change it: the German sharp s
    while position >= 0:
        if not lowered[position - 1].isalnum() or (
            same_length and text[position].isupper() and text[position - 1].islower()
        ):
            return True
        position = lowered.find(folded, position + 1)
    return False
