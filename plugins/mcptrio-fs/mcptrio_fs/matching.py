"""Finds the lines of a text that match a pattern, within a time.

The search of contents uses it, in a worker thread. A regular expression comes from a model and can take exponential
time, so each line is matched alone, up to a length, with a timeout. Text that every match contains is looked for first,
and then the expression in many lines at once: both are far faster, and rule out most files.

Source: the syntax is that of the package regex, which is Python's, and whose matching has timeouts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from mcptrio.errors import ToolError

from .reading import Checkpoint

__all__ = ["MAX_LINE", "LinePattern"]

MAX_LINE = 20_000
"""Characters of a line that a regular expression sees."""

_MAX_PATTERN = 1000
_WINDOW = 64 * 1024
"""Characters that an expression sees at a time. It remembers places in them, so this bounds its memory."""
_LINE_TIMEOUT = 1.0
"""Seconds for one line; a usual expression takes microseconds."""
_WINDOW_TIMEOUT = 0.1
_BEYOND_A_LINE = re.compile(r"\\[AZzG]|\(\?(?!:)|[*+?}]\+")
"""Expressions that may match a line but not the text around it: assertions, and repetitions that give nothing back."""
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
    """The regular expression for several lines, which finds something if one of them matches; None if it might not."""

    @classmethod
    def parse(cls, pattern: str, *, ignore_case: bool, fixed_strings: bool) -> LinePattern:
        """Compile a pattern.

        Raises:
            ToolError: it is empty, too long, contains a line end, or is no regular expression.
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
            window = None if _BEYOND_A_LINE.search(source) else regex.compile(source, flags | regex.MULTILINE)
        except (regex.error, OverflowError, RecursionError) as error:
            raise ToolError(
                f"expected a regular expression, got {pattern!r}: {error}; fixed_strings=true searches for it as it is"
            ) from error
        text = "" if ignore_case else _required(pattern)
        return cls(text, text.encode("utf-8", "replace"), line, window)

    def matches(self, text: str, first: int, where: str, checkpoint: Checkpoint) -> Iterator[tuple[int, int]]:
        """The indexes of the lines that match, from the index ``first`` on, and where in the line the match begins.

        Raises:
            ToolError: the expression takes too long on a line.
        """
        at = number = 0
        while at <= len(text):
            checkpoint()
            # Whole lines; a longer one is its own window.
            end = text.rfind("\n", at, at + _WINDOW) if len(text) - at > _WINDOW else len(text)
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
        if self.window is None or end - at > _WINDOW:
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
            found = self.line.search(line[:MAX_LINE], timeout=_LINE_TIMEOUT)
        except TimeoutError as error:
            raise ToolError(
                f"the regular expression took longer than {_LINE_TIMEOUT:g} s on line {number + 1} of {where}; "
                "simplify it: nested repetitions such as (a+)+ take exponential time"
            ) from error
        return -1 if found is None else found.start()


def _required(pattern: str) -> str:
    """The longest text that every match of an expression contains; empty if the expression is not a simple one."""
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
