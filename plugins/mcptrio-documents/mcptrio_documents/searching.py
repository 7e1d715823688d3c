"""Finds a phrase in a document, or the parts that have all its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from mcptrio import ToolError

from .document import PagedDocument

__all__ = ["DocumentHits", "find_phrase"]

_MAX_QUERY_CHARS = 500
_MAX_HITS = 10_000
_BEFORE = 80
"""Characters of context before a hit."""
_AFTER = 160


class DocumentHits(NamedTuple):
    """The hits in a document."""

    items: list[tuple[int, str]]
    """The index of the part, and the text around the hit on one line."""
    are_words: bool
    """No part has the phrase; these have all its words."""


def find_phrase(document: PagedDocument, query: str, checkpoint: Callable[[], None]) -> DocumentHits:
    """Find a phrase in any case and with any white space.

    Args:
        checkpoint: called for each part.

    Raises:
        ToolError: the query is empty or too long.
    """
    words = query.split()
    if not words or len(query) > _MAX_QUERY_CHARS:
        raise ToolError(f"expected a query of 1 to {_MAX_QUERY_CHARS} characters, got {len(query)}")
    phrase = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    hits: list[tuple[int, str]] = []
    for index, part in enumerate(document.parts):
        checkpoint()
        shown_until = -1
        for found in phrase.finditer(part.text):
            # A hit that the context of the one before shows is no second one.
            if found.end() <= shown_until:
                continue
            shown_until = found.end() + _AFTER
            hits.append((index, _around(part.text, found)))
            if len(hits) == _MAX_HITS:
                return DocumentHits(hits, are_words=False)
    if hits or len(words) == 1:
        return DocumentHits(hits, are_words=False)
    # The longest word is the rarest one, mostly.
    patterns = [re.compile(re.escape(word), re.IGNORECASE) for word in sorted(words, key=len, reverse=True)]
    for index, part in enumerate(document.parts):
        checkpoint()
        places = [pattern.search(part.text) for pattern in patterns]
        if places[0] is not None and all(places):
            hits.append((index, _around(part.text, places[0])))
    return DocumentHits(hits, are_words=True)


def _around(text: str, found: re.Match[str]) -> str:
    start, end = max(found.start() - _BEFORE, 0), min(found.end() + _AFTER, len(text))
    before, after = text[start : found.start()], text[found.end() : end]
    # Whole words only, unless a word fills the context.
    if start:
        before = before.partition(" ")[2] or before
    if end < len(text):
        after = after.rpartition(" ")[0] or after
    line = " ".join(f"{before}{found[0]}{after}".split())
    return f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"
