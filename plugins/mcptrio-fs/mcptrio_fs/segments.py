"""Compiles one segment of a glob, the part between two slashes.

``GlobPattern`` calls it. A segment becomes a regular expression with atomic stars, so no number of stars makes a match
take exponential time. An extended glob such as ``*.@(ts|tsx)`` would need nested repetitions, which can take
exponential time. So a segment with one is matched by following all possible positions in the name at once.

Source: the rules are those of minimatch with ``dot: true``, and for ``!(…)`` those of the Bash manual, 3.5.8.1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias

from mcptrio.errors import ToolError

__all__ = ["SegmentPattern", "compile_segment"]

# The time for one name grows with the square of its length for each level. These limits bound it to about 0.1 s.
_MAX_EXTENDED_CHARS = 100
"""Maximum number of characters of a segment with an extended glob."""
_MAX_DEPTH = 2
"""Maximum depth of nested extended globs."""

_STAR = "*"


class SegmentPattern(Protocol):
    """A compiled segment."""

    def fullmatch(self, name: str, /) -> object:
        """Return a true value if the whole name matches."""


class _Group(NamedTuple):
    """An extended glob: ``@``, ``?``, ``*``, ``+`` or ``!``, and its alternatives."""

    kind: str
    alternatives: Sequence[Sequence[_Node]]


_Node: TypeAlias = "str | _Group"
"""A regular expression for one character, or ``*``, or an extended glob."""


def compile_segment(segment: str, ignore_case: bool) -> SegmentPattern:
    """Compile a segment other than ``**``.

    Raises:
        ToolError: A segment with an extended glob is too long, or they are nested too deep.
    """
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    nodes = _parse(segment, 0)
    plain = [node for node in nodes if isinstance(node, str)]
    if len(plain) < len(nodes):
        if len(segment) > _MAX_EXTENDED_CHARS:
            raise ToolError(
                f"expected at most {_MAX_EXTENDED_CHARS} characters in {segment[:40]!r}…, which has an extended glob, "
                f"got {len(segment)}"
            )
        return _ExtendedSegment(nodes, flags)
    runs = [""]  # the text between stars
    for node in plain:
        if node != _STAR:
            runs[-1] += node
        elif runs[-1] or len(runs) == 1:
            runs.append("")
    # As in fnmatch, a run that matches at its first position never needs a later one, so each star can be atomic.
    first, *others = runs
    body = first + "".join(f"(?>.*?{run})" for run in others[:-1]) + (f".*{others[-1]}" if others else "")
    return re.compile(body, flags)


class _ExtendedSegment:
    """A segment with extended globs. A set of positions in a name is an integer with a bit for each."""

    def __init__(self, nodes: Sequence[_Node], flags: int) -> None:
        self._nodes = nodes
        self._flags = flags

    def fullmatch(self, name: str, /) -> bool:
        """Return True if the whole name matches."""
        return bool(_Match(name, self._flags).end_positions(self._nodes, 1) >> len(name))


class _Match:
    """The match of one name."""

    def __init__(self, name: str, flags: int) -> None:
        self._name = name
        self._flags = flags
        self._all = (1 << len(name) + 1) - 1
        self._char_starts: dict[str, int] = {}

    def end_positions(self, nodes: Sequence[_Node], starts: int) -> int:
        """Return the positions at which a match of these nodes can end if it begins at one of the given positions."""
        for node in nodes:
            if not starts:
                break
            if isinstance(node, _Group):
                starts = self._ends_of_group(node, starts)
            elif node == _STAR:
                starts = self._positions_from(starts)
            else:
                starts = (starts & self._starts_of_char(node)) << 1
        return starts

    def _ends_of_group(self, group: _Group, starts: int) -> int:
        if group.kind == "!":
            ends = 0
            while starts:
                first = starts & -starts
                starts ^= first
                ends |= self._positions_from(first) & ~self._ends_of_alternative(group, first)
            return ends
        once = self._ends_of_alternative(group, starts)
        if group.kind in "@?":
            return once if group.kind == "@" else starts | once
        ends = starts if group.kind == "*" else 0
        while new := once & ~ends:
            ends |= new
            once = self._ends_of_alternative(group, new)
        return ends

    def _ends_of_alternative(self, group: _Group, starts: int) -> int:
        ends = 0
        for alternative in group.alternatives:
            ends |= self.end_positions(alternative, starts)
        return ends

    def _positions_from(self, starts: int) -> int:
        """Return all positions from the first of these on; none if there are none."""
        return self._all & -(starts & -starts)

    def _starts_of_char(self, char: str) -> int:
        """Return the positions of the characters that this regular expression matches."""
        if char not in self._char_starts:
            found = re.compile(char, self._flags).fullmatch
            self._char_starts[char] = sum(1 << index for index, each in enumerate(self._name) if found(each))
        return self._char_starts[char]


def _parse(text: str, depth: int) -> list[_Node]:
    nodes: list[_Node] = []
    index = 0
    while index < len(text):
        char = text[index]
        parts = _alternatives(text, index + 1) if char in "@?*+!" and text[index + 1 : index + 2] == "(" else None
        if parts is not None:
            if depth == _MAX_DEPTH:
                raise ToolError(f"expected at most {_MAX_DEPTH} extended globs within each other, got more: {text!r}")
            nodes.append(_Group(char, [_parse(part, depth + 1) for part in parts]))
            index += sum(map(len, parts)) + len(parts) + 2
        elif char == "[":
            node, index = _character_class(text, index + 1)
            nodes.append(node)
        elif char == "\\" and index + 1 < len(text):
            nodes.append(re.escape(text[index + 1]))
            index += 2
        else:
            nodes.append(_STAR if char == "*" else "." if char == "?" else re.escape(char))
            index += 1
    return nodes


def _alternatives(text: str, opening: int) -> list[str] | None:
    """Return the alternatives of the group whose parenthesis is at ``opening``; None if it is not closed."""
    edges = [opening]
    level, index = 0, opening
    while index < len(text):
        char = text[index]
        if char == "\\":
            index += 2
            continue
        if char == "[":
            index = _character_class(text, index + 1)[1]
            continue
        if char == "(":
            level += 1
        elif char == "|" and level == 1:
            edges.append(index)
        elif char == ")":
            level -= 1
            if not level:
                edges.append(index)
                return [text[left + 1 : right] for left, right in pairwise(edges)]
        index += 1
    return None


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
