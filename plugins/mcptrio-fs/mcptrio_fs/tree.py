"""The tree of a directory and everything below.

The tree tool calls it in a worker thread, one slice at a time. Between slices it keeps names and no descriptors. The
tree is built level by level, so a limit omits the deepest levels.

A node has a name, a type and, for a directory, children. ``truncated`` is true if children are missing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from attrs import define, field

from .errors import printable
from .listing import ENTRIES_PER_CHECK, DirectoryEntry, list_below, scan_start
from .patterns import GlobPattern
from .reading import Checkpoint
from .sandbox import Sandbox

__all__ = ["MAX_DEPTH", "Tree"]

MAX_DEPTH = 200
"""Maximum number of levels of a tree."""


@define
class Tree:
    """A tree that grows until it is complete or a limit is reached."""

    sandbox: Sandbox
    start: str
    """The directory, absolute, as typed."""

    excluded: Sequence[GlobPattern]
    limit: int
    """Maximum number of nodes."""

    max_depth: int
    max_visited: int

    nodes: list[dict[str, Any]] = field(init=False, factory=list)
    """The nodes of the first level."""

    count: int = field(init=False, default=0)
    visited: int = field(init=False, default=0)
    unfinished: int = field(init=False, default=0)
    """Number of directories with missing children."""

    _real: str = field(init=False, default="")
    _queue: deque[tuple[tuple[str, ...], dict[str, Any]]] = field(init=False, factory=deque)

    def advance(self, seconds: float, checkpoint: Checkpoint) -> bool:
        """Continue the tree for about ``seconds``. Return True if it must be continued.

        Raises:
            ToolError: The start is not a directory, or may not be listed.
        """
        until = time.monotonic() + seconds
        if not self._real:
            first, self._real = scan_start(self.sandbox, self.start, checkpoint=checkpoint)
            self._add((), {"children": self.nodes}, first, checkpoint)
        while self._queue:
            parts, node = self._queue.popleft()
            if self._is_full() or len(parts) >= min(self.max_depth, MAX_DEPTH):
                self._leave_unfinished(node)
            else:
                entries = list_below(self._real, parts, self.sandbox, checkpoint)
                if entries is None:
                    self._leave_unfinished(node)
                else:
                    self._add(parts, node, entries, checkpoint)
            if time.monotonic() > until:
                return bool(self._queue)
        return False

    def text(self) -> str:
        """Return a line for each node, indented by level."""
        lines: list[str] = []
        stack = [("", iter(self.nodes))]
        while stack:
            indent, nodes = stack[-1]
            for node in nodes:
                if node["type"] == "file":
                    lines.append(indent + node["name"])
                    continue
                lines.append(f"{indent}{node['name']}/{' ...' if node.get('truncated') else ''}")
                stack.append((indent + "  ", iter(node["children"])))
                break
            else:
                stack.pop()
        return "\n".join(lines)

    def _add(
        self, parts: tuple[str, ...], node: dict[str, Any], entries: list[DirectoryEntry], checkpoint: Checkpoint
    ) -> None:
        for entry in entries:
            self.visited += 1
            if self.visited % ENTRIES_PER_CHECK == 0:
                checkpoint()
            below = (*parts, entry.name)
            if any(_excludes(pattern, below) for pattern in self.excluded):
                continue
            if self._is_full():
                self._leave_unfinished(node)
                return
            self.count += 1
            child: dict[str, Any] = {
                "name": printable(entry.name),
                "type": "directory" if entry.is_directory else "file",
            }
            if entry.is_directory:
                child["children"] = []
                self._queue.append((below, child))
            node["children"].append(child)

    def _is_full(self) -> bool:
        return self.count >= self.limit or self.visited > self.max_visited

    def _leave_unfinished(self, node: dict[str, Any]) -> None:
        if "type" in node:
            node["truncated"] = True
        self.unfinished += 1


def _excludes(pattern: GlobPattern, parts: tuple[str, ...]) -> bool:
    """Return whether a pattern excludes the entry. A pattern without a star matches the name in any directory."""
    if pattern.matches(parts):
        return True
    if "*" in pattern.text:
        return False
    return any(pattern.matches(parts[start:]) for start in range(1, len(parts)))
