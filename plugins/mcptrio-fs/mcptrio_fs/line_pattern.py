"""Finds the lines of a text that match a pattern, in limited time.

``ContentSearch`` calls it in a worker thread. A regular expression comes from a model and can take exponential time, so
each line is matched separately, up to a length and with a timeout. Two faster tests come first and exclude most files:
a search for a text that every match contains, and a search with the expression in many lines at once.

Source: the syntax is that of the package regex, which extends Python's and has timeouts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from mcptrio.errors import ToolError

from .reading import Checkpoint

__all__ = ["MAX_LINE_CHARS", "LinePattern"]

MAX_LINE_CHARS = 20_000
"""Maximum number of characters of a line that are matched with a regular expression."""

_MAX_PATTERN = 1000
_WINDOW_CHARS = 64 * 1024
"""Maximum number of characters in one search with an expression. It limits the memory for backtracking positions."""
_LINE_TIMEOUT = 1.0
"""Seconds for one line; a usual expression takes microseconds."""
_WINDOW_TIMEOUT = 0.1
_CONTEXT_DEPENDENT = re.compile(r"\\[AZzG]|\(\?(?!:)|[*+?}]\+")
"""Expressions that may match a line alone but not within several lines: assertions, groups with options, and possessive
repetitions."""
_TOKEN = re.compile(
    r"(?:\\(?P<escaped>[^\w\s])|(?P<literal>[^][\\.^$*+?{}()|])|\\[dwsbDWSB]|[.^$])(?P<repeated>[*+?]{0,2})", re.DOTALL
)
"""A part of an expression without groups, sets, alternatives and counts."""


class LinePattern(Struct, frozen=True):
    """A compiled pattern."""

    text: str
    """A text that each matching line contains; empty if unknown."""

    needed: bytes
    """``text`` encoded as in a file."""

    line: Any = None
    """The regular expression for a line; None if the text is the whole pattern."""

    window: Any = None
    """The regular expression for several lines, which matches if one of them does; None if that is not certain."""

    @classmethod
    def parse(cls, pattern: str, *, ignore_case: bool, fixed_strings: bool) -> LinePattern:
        """Compile a pattern.

        Raises:
            ToolError: The pattern is empty, too long, contains a line end, or is not a valid regular expression.
        """
        import regex  # only searches need it

        if not 0 < len(pattern) <= _MAX_PATTERN or "\n" in pattern:
            raise ToolError(
                f"expected a pattern of 1 to {_MAX_PATTERN} characters on one line, got {len(pattern)} characters and "
                f"{pattern.count(chr(10))} line ends"
            )
        if fixed_strings and not ignore_case:
            return cls(pattern, pattern.encode("utf-8", "replace"))
        flags = regex.VERSION0 | (regex.IGNORECASE if ignore_case else 0)
        source = regex.escape(pattern) if fixed_strings else pattern
        try:
            line = regex.compile(source, flags)
            window = None if _CONTEXT_DEPENDENT.search(source) else regex.compile(source, flags | regex.MULTILINE)
        except (regex.error, OverflowError, RecursionError) as error:
            raise ToolError(
                f"expected a regular expression, got {pattern!r}: {error}; fixed_strings=true searches for it as it is"
            ) from error
        text = "" if ignore_case else _longest_literal(pattern)
        return cls(text, text.encode("utf-8", "replace"), line, window)

    def matches(self, text: str, first: int, where: str, checkpoint: Checkpoint) -> Iterator[tuple[int, int]]:
        """Yield the index of each matching line, from the index ``first`` on, and the column of its match.

        Raises:
            ToolError: The expression takes too long on a line.
        """
        at = number = 0
        while at <= len(text):
            checkpoint()
            # A window has whole lines. A line that is longer than a window is a window of its own.
            end = text.rfind("\n", at, at + _WINDOW_CHARS) if len(text) - at > _WINDOW_CHARS else len(text)
            if end < 0:
                end = text.find("\n", at)
                end = end if end >= 0 else len(text)
            if self._may_match(text, at, end):
                lines = text[at:end].split("\n")
                for index, line in enumerate(lines):
                    column = -1 if number + index < first else self._find(line, number + index, where)
                    if column >= 0:
                        yield number + index, column
                number += len(lines)
            else:
                number += text.count("\n", at, end) + 1
            at = end + 1

    def _may_match(self, text: str, at: int, end: int) -> bool:
        if text.find(self.text, at, end) < 0:
            return False
        if self.window is None or end - at > _WINDOW_CHARS:
            return True
        try:
            return self.window.search(text, at, end, timeout=_WINDOW_TIMEOUT) is not None
        except TimeoutError:
            return True

    def _find(self, line: str, number: int, where: str) -> int:
        """Return the position at which the match begins, or -1."""
        column = line.find(self.text)
        if self.line is None or column < 0:
            return column
        try:
            match = self.line.search(line[:MAX_LINE_CHARS], timeout=_LINE_TIMEOUT)
        except TimeoutError as error:
            raise ToolError(
                f"the regular expression took longer than {_LINE_TIMEOUT:g} s on line {number + 1} of {where}; "
                "simplify it: nested repetitions such as (a+)+ take exponential time"
            ) from error
        return -1 if match is None else match.start()


def _longest_literal(pattern: str) -> str:
    """Return the longest text that every match of an expression contains; empty if it has groups, sets or counts."""
    runs = [""]
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return ""
        at = token.end()
        text = token["escaped"] or token["literal"]
        if text and not token["repeated"]:
            runs[-1] += text
        else:
            runs.append("")
    return max(runs, key=len)
