"""Finds operations of one document by words.

``find_operation`` uses it. The index is made once from names, paths, summaries, tags and descriptions. Schemas are read
only for operations that are shown or called.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from math import log
from typing import Any

from attrs import field, frozen

from .locations import OperationLocation

__all__ = ["FoundOperation", "OperationIndex"]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_MAX_CHARS = 2000
"""Maximum number of characters of a text that are indexed."""
_MAX_QUERY_WORDS = 20
_UNTAGGED = "untagged"
_STOP_WORDS = frozenset({"a", "an", "the", "of", "for", "to", "in", "on", "by", "with", "and", "or", "all"})


@frozen(kw_only=True)
class FoundOperation:
    """One operation in the index."""

    name: str
    """The name by which a model calls the operation."""
    location: OperationLocation
    summary: str
    tags: tuple[str, ...]
    weights: Mapping[str, float] = field(repr=False)
    """The weight of each word. It depends on the most important field that contains the word."""


class OperationIndex:
    """Finds operations by words, and counts them by tag.

    Args:
        locations: The operations, in the order of the document.
        prefix: The prefix of tool names, which the names of operations do not have.
    """

    def __init__(self, locations: Iterable[OperationLocation], prefix: str) -> None:
        self._operations = {each.name: each for each in (_index_operation(location, prefix) for location in locations)}
        self.tags = Counter(tag for each in self._operations.values() for tag in each.tags)
        """The number of operations by tag, in the order of the document."""
        self._frequencies = Counter(word for each in self._operations.values() for word in each.weights)

    def __len__(self) -> int:
        return len(self._operations)

    def get(self, name: str) -> FoundOperation | None:
        return self._operations.get(name)

    def find(self, query: str, tag: str = "") -> list[FoundOperation]:
        """Return the operations that have a word of the query, best first; without words, all of them.

        Args:
            tag: Return only operations with this tag; an empty text for all.
        """
        chosen = [each for each in self._operations.values() if not tag or tag in each.tags]
        words = [word for word in dict.fromkeys(_words(query)) if word not in _STOP_WORDS][:_MAX_QUERY_WORDS]
        if not words:
            return chosen
        scored = [(self._score(each, words), each) for each in chosen]
        # The sort is stable, so operations with equal scores stay in the order of the document.
        scored.sort(key=lambda pair: -pair[0])
        return [each for score, each in scored if score > 0]

    def _score(self, operation: FoundOperation, words: list[str]) -> float:
        total, matched = 0.0, 0
        for word in words:
            weight, frequency = operation.weights.get(word, 0.0), self._frequencies[word]
            if not weight and len(word) >= 3:
                # "repo" also finds "repository", with half of its weight.
                longer = [each for each in operation.weights if each.startswith(word)]
                weight = max((operation.weights[each] for each in longer), default=0.0) / 2
                frequency = max((self._frequencies[each] for each in longer), default=0)
            if weight:
                matched += 1
                total += weight * log(1 + len(self._operations) / frequency)
        # An operation with all words should come before one with only the rarest of them.
        return total * matched / len(words)


def _index_operation(location: OperationLocation, prefix: str) -> FoundOperation:
    name = location.tool.removeprefix(prefix)
    summary, description = _text(location.operation.get("summary")), _text(location.operation.get("description"))
    tag_names = location.operation.get("tags")
    tags = tuple(tag for tag in tag_names if isinstance(tag, str)) if isinstance(tag_names, list) else ()
    weights: dict[str, float] = {}
    texts = ((4.0, name), (3.0, summary), (2.5, location.path), (2.0, " ".join(tags)), (1.0, description))
    for weight, text in (*texts, (2.0, location.method)):
        for word in _words(text):
            weights[word] = max(weight, weights.get(word, 0.0))
    first = summary or description.partition("\n")[0]
    return FoundOperation(name=name, location=location, summary=first, tags=tags or (_UNTAGGED,), weights=weights)


def _text(value: Any) -> str:
    return value.strip()[:_MAX_CHARS] if isinstance(value, str) else ""


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case, without the s of a plural. ``listIssues`` consists of two words."""
    words = (word.lower() for word in _WORD.findall(text[:_MAX_CHARS]))
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]
