"""Glob patterns for relative paths.

The tools use them for searches and exclusions, the sandbox for denied names. Braces are expanded, and each resulting
pattern is split into segments at ``/``. ``**`` matches whole segments. Names that begin with a dot are ordinary names.

Source: the rules are those of minimatch with ``dot: true``, which the reference filesystem server uses. The exception
is a pattern that begins with ``!(``, which is an extended glob instead of a negation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from mcptrio.errors import ToolError

from .segments import SegmentPattern, compile_segment

__all__ = ["MAX_ALTERNATIVES", "MAX_PATTERN", "GlobPattern"]

MAX_PATTERN = 1024
"""Maximum number of characters in one pattern."""

MAX_ALTERNATIVES = 128
"""Maximum number of patterns to which the braces of one pattern expand."""


class GlobPattern(Struct, frozen=True):
    """One compiled glob."""

    text: str
    _alternatives: tuple[tuple[SegmentPattern | None, ...], ...]
    """The segments of each alternative; ``None`` stands for ``**``."""

    _negated: bool = False

    @classmethod
    def parse(cls, text: str, *, ignore_case: bool = False) -> GlobPattern:
        """Compile a glob.

        Raises:
            ToolError: The pattern is empty or too long, its braces expand to too many alternatives, or an extended glob
                is too long or too deep.
        """
        if not text or "\0" in text:
            raise ToolError(f"expected a glob pattern such as '**/*.py', got {text!r}")
        if len(text) > MAX_PATTERN:
            raise ToolError(f"expected a pattern of at most {MAX_PATTERN} characters, got {len(text)}")
        body = text.lstrip("!")
        if body.startswith("(") and body != text:
            body = f"!{body}"
        negated = (len(text) - len(body)) % 2 == 1
        alternatives: list[tuple[SegmentPattern | None, ...]] = []
        for plain in _expand(unicodedata.normalize("NFC", body)):
            if len(alternatives) == MAX_ALTERNATIVES:
                raise ToolError(f"expected braces of at most {MAX_ALTERNATIVES} alternatives in {text!r}, got more")
            segments = [part for part in plain.split("/") if part and part != "."]
            compiled = (None if segment == "**" else compile_segment(segment, ignore_case) for segment in segments)
            alternatives.append(tuple(compiled))
        return cls(text, tuple(alternatives), negated)

    def matches(self, parts: Sequence[str]) -> bool:
        """Return whether the path with these components matches."""
        names = [part if part.isascii() else unicodedata.normalize("NFC", part) for part in parts]
        return any(_match(alternative, names) for alternative in self._alternatives) is not self._negated


def _match(segments: tuple[SegmentPattern | None, ...], names: list[str]) -> bool:
    """Match the segments with the names.

    Only the last ``**`` needs backtracking: the names before it can stay where they matched first.
    """
    at = position = 0
    resume_at = resume_position = -1
    while position < len(names):
        if at < len(segments):
            segment = segments[at]
            if segment is None:
                if at == len(segments) - 1:
                    return True  # a closing ** needs one name, and there is one
                resume_at, resume_position = at + 1, position
                at += 1
                continue
            if segment.fullmatch(names[position]):
                at += 1
                position += 1
                continue
        if resume_at < 0:
            return False
        resume_position += 1
        at, position = resume_at, resume_position
    return at == len(segments)


def _expand(pattern: str) -> Iterator[str]:
    """Yield the expansions of ``{a,b}`` and ``{1..9}`` lazily, so that the caller can stop at its limit."""
    brace = _first_brace(pattern)
    if brace is None:
        yield pattern
        return
    start, end, choices = brace
    head, tail = pattern[:start], pattern[end + 1 :]
    for choice in choices:
        for middle in _expand(choice):
            for rest in _expand(tail):
                yield head + middle + rest


def _first_brace(pattern: str) -> tuple[int, int, Sequence[str]] | None:
    """Return the first brace group that has choices: its start, its end and its choices."""
    opened: list[tuple[int, list[int]]] = []
    best: tuple[int, int, Sequence[str]] | None = None
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 2
            continue
        if char == "{":
            opened.append((index, []))
        elif char == "," and opened:
            opened[-1][1].append(index)
        elif char == "}" and opened:
            start, commas = opened.pop()
            choices = _choices(pattern, start, index, commas)
            if choices is not None and (best is None or start < best[0]):
                best = (start, index, choices)
                if not opened:
                    return best
        index += 1
    return best


def _choices(pattern: str, start: int, end: int, commas: list[int]) -> Sequence[str] | None:
    if commas:
        edges = [start, *commas, end]
        return [pattern[left + 1 : right] for left, right in pairwise(edges)]
    span = re.fullmatch(r"(-?\d{1,6})\.\.(-?\d{1,6})", pattern[start + 1 : end], re.ASCII)
    if span is None:
        return None
    low, high = int(span[1]), int(span[2])
    step = 1 if low <= high else -1
    numbers = range(low, high + step, step)
    # parse() refuses the pattern after one alternative more than allowed.
    return [str(number) for number in numbers[: MAX_ALTERNATIVES + 1]]
