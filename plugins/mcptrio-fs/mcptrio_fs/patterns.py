"""Glob patterns for relative paths.

The tools use them for searches and exclusions, the sandbox for denied names. A pattern is split into segments at ``/``.
A segment becomes a regular expression with atomic stars, and ``**`` matches whole segments, so no number of stars makes
a match take exponential time. Names that begin with a dot are ordinary names.

Source: the rules are those of minimatch with ``dot: true``, which the reference filesystem server uses. Braces are
expanded. Extended globs such as ``+(a|b)`` are not supported; their parentheses are literal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from mcptrio.errors import ToolError

__all__ = ["MAX_ALTERNATIVES", "MAX_PATTERN", "GlobPattern"]

MAX_PATTERN = 1024
"""Maximum number of characters in one pattern."""

MAX_ALTERNATIVES = 128
"""Maximum number of patterns to which the braces of one pattern expand."""


class GlobPattern(Struct, frozen=True):
    """One compiled glob."""

    text: str
    _alternatives: tuple[tuple[re.Pattern[str] | None, ...], ...]
    """The segments of each alternative; ``None`` stands for ``**``."""

    _negated: bool = False

    @classmethod
    def parse(cls, text: str, *, ignore_case: bool = False) -> GlobPattern:
        """Compile a glob.

        Raises:
            ToolError: the pattern is empty, too long, or its braces expand to too many alternatives.
        """
        if not text or "\0" in text:
            raise ToolError(f"expected a glob pattern such as '**/*.py', got {text!r}")
        if len(text) > MAX_PATTERN:
            raise ToolError(f"expected a pattern of at most {MAX_PATTERN} characters, got {len(text)}")
        body = text.lstrip("!")
        negated = (len(text) - len(body)) % 2 == 1
        alternatives: list[tuple[re.Pattern[str] | None, ...]] = []
        for plain in _expand(unicodedata.normalize("NFC", body)):
            if len(alternatives) == MAX_ALTERNATIVES:
                raise ToolError(f"expected braces of at most {MAX_ALTERNATIVES} alternatives in {text!r}, got more")
            segments = [part for part in plain.split("/") if part and part != "."]
            alternatives.append(tuple(_compile(segment, ignore_case) for segment in segments))
        return cls(text, tuple(alternatives), negated)

    def matches(self, parts: Sequence[str]) -> bool:
        """Return whether the path with these components matches."""
        names = [part if part.isascii() else unicodedata.normalize("NFC", part) for part in parts]
        return any(_match(alternative, names) for alternative in self._alternatives) is not self._negated


def _match(segments: tuple[re.Pattern[str] | None, ...], names: list[str]) -> bool:
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


def _compile(segment: str, ignore_case: bool) -> re.Pattern[str] | None:
    if segment == "**":
        return None
    runs: list[str] = [""]  # the text between stars, each as a regular expression
    index = 0
    while index < len(segment):
        char = segment[index]
        index += 1
        if char == "*":
            if runs[-1] or len(runs) == 1:
                runs.append("")
        elif char == "?":
            runs[-1] += "."
        elif char == "[":
            body, after = _character_class(segment, index)
            runs[-1] += body
            index = after
        elif char == "\\" and index < len(segment):
            runs[-1] += re.escape(segment[index])
            index += 1
        else:
            runs[-1] += re.escape(char)
    # As in fnmatch, a run that matches at its first position never needs a later one, so each star can be atomic.
    first, *others = runs
    body = first + "".join(f"(?>.*?{run})" for run in others[:-1]) + (f".*{others[-1]}" if others else "")
    return re.compile(body, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _character_class(segment: str, index: int) -> tuple[str, int]:
    """Translate ``[…]``, whose bracket is before ``index``. A bracket that is not closed is literal."""
    start = index + 1 if segment[index : index + 1] in ("!", "^") else index
    end = segment.find("]", start + 1)
    if end < 0:
        return r"\[", index
    members = []
    text = segment[start:end]
    position = 0
    while position < len(text):
        low = text[position]
        if position + 2 < len(text) and text[position + 1] == "-":
            high = text[position + 2]
            if low <= high:
                members.append(f"{re.escape(low)}-{re.escape(high)}")
            position += 3
        else:
            members.append(re.escape(low))
            position += 1
    negated = start > index
    if not members:
        return ("." if negated else r"(?!)"), end + 1
    return f"[{'^' if negated else ''}{''.join(members)}]", end + 1


def _expand(pattern: str) -> Iterator[str]:
    """Yield the expansions of ``{a,b}`` and ``{1..9}`` lazily, so that the caller can stop at its limit."""
    found = _first_brace(pattern)
    if found is None:
        yield pattern
        return
    start, end, choices = found
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
