"""Finds a phrase in a document, or the parts that contain all its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from mcptrio import ToolError

from .document import PagedDocument

__all__ = ["DocumentHits", "find_phrase"]

_MAX_QUERY_CHARS = 500
_MAX_HITS = 10_000
_CHARS_BEFORE_HIT = 80
"""Maximum number of characters that are shown before a hit."""
_CHARS_AFTER_HIT = 160


class DocumentHits(NamedTuple):
    """The hits in a document."""

    items: list[tuple[int, str]]
    """For each hit, the index of the part and a line with the hit and the text around it."""
    match_words_only: bool
    """True if no part contains the phrase, and the hits are parts with all its words."""


def find_phrase(document: PagedDocument, query: str, checkpoint: Callable[[], None]) -> DocumentHits:
    """Find a phrase, ignoring case and differences in white space.

    Args:
        checkpoint: A function that is called for each part, and raises after a cancellation.

    Raises:
        ToolError: The query is empty or too long.
    """
    words = query.split()
    if not words or len(query) > _MAX_QUERY_CHARS:
        raise ToolError(f"expected a query of 1 to {_MAX_QUERY_CHARS} characters, got {len(query)}")
    phrase = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    hits: list[tuple[int, str]] = []
    for index, part in enumerate(document.parts):
        checkpoint()
        shown_until = -1
        for match in phrase.finditer(part.text):
            # The context of the previous hit already shows this one.
            if match.end() <= shown_until:
                continue
            shown_until = match.end() + _CHARS_AFTER_HIT
            hits.append((index, _line_around(part.text, match)))
            if len(hits) == _MAX_HITS:
                return DocumentHits(hits, match_words_only=False)
    if hits or len(words) == 1:
        return DocumentHits(hits, match_words_only=False)
    # The longest word is usually the rarest, so its context tells most.
    patterns = [re.compile(re.escape(word), re.IGNORECASE) for word in sorted(words, key=len, reverse=True)]
    for index, part in enumerate(document.parts):
        checkpoint()
        matches = [pattern.search(part.text) for pattern in patterns]
        if matches[0] is not None and all(matches):
            hits.append((index, _line_around(part.text, matches[0])))
    return DocumentHits(hits, match_words_only=True)


def _line_around(text: str, match: re.Match[str]) -> str:
    start, end = max(match.start() - _CHARS_BEFORE_HIT, 0), min(match.end() + _CHARS_AFTER_HIT, len(text))
    before, after = text[start : match.start()], text[match.end() : end]
    # The context is cut between words, unless it is a single word.
    if start:
        before = before.partition(" ")[2] or before
    if end < len(text):
        after = after.rpartition(" ")[0] or after
    line = " ".join(f"{before}{match[0]}{after}".split())
    return f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"
