"""One thought, and a sequence of thoughts.

The tool makes them, and ``Sequences`` keeps them. A thought never changes; a revision is another thought that names the
revised one.

Source: the tool ``sequentialthinking`` of the reference sequential thinking server (2026.8.31), whose argument names
the fields have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Annotated

from attrs import define, field, frozen

__all__ = ["Sequence", "Thought"]

_OVERHEAD = 300
"""Bytes that a thought takes beyond its text, roughly."""


@frozen(kw_only=True)
class Thought:
    """One step."""

    thought: str
    thoughtNumber: int
    totalThoughts: int
    nextThoughtNeeded: bool
    isRevision: Annotated[bool, "It revises another one."] = False
    revisesThought: Annotated[int | None, "Which one it revises."] = None
    branchFromThought: Annotated[int | None, "Where its branch begins."] = None
    branchId: Annotated[str | None, "The branch it is on."] = None
    needsMoreThoughts: Annotated[bool, "There turned out to be more to think."] = False

    @property
    def size(self) -> int:
        """Bytes that are counted for it."""
        name = (self.branchId or "").encode("utf-8", "surrogatepass")
        return len(self.thought.encode("utf-8", "surrogatepass")) + len(name) + _OVERHEAD

    def begins_branch(self, sequence: Sequence) -> bool:
        """Whether it is the first one on its branch."""
        return self._is_on_branch and self.branchId not in sequence.branches

    @property
    def _is_on_branch(self) -> bool:
        return self.branchFromThought is not None and self.branchId is not None


@define
class Sequence:
    """Thoughts in the order in which they came."""

    id: str
    thoughts: deque[Thought] = field(init=False, factory=deque)
    dropped: int = field(init=False, default=0)
    """Thoughts before these, which were dropped to make room."""
    branches: dict[str, int] = field(init=False, factory=dict)
    """Names of branches and how many thoughts are on each, in order of their beginning."""
    size: int = field(init=False, default=0)
    used: float = field(init=False, default=0.0)
    """Trio time of the last use."""

    def add(self, thought: Thought) -> None:
        """Keep one more."""
        self.thoughts.append(thought)
        self.size += thought.size
        if thought.branchFromThought is not None and thought.branchId is not None:
            self.branches[thought.branchId] = self.branches.get(thought.branchId, 0) + 1

    def drop_earliest(self) -> None:
        """Forget the earliest thought. Its branch keeps its name, so that it can be continued."""
        self.size -= self.thoughts.popleft().size
        self.dropped += 1

    def positions(self, branch: str) -> Iterator[tuple[int, Thought]]:
        """The kept thoughts of a branch, or all if it is empty, with their positions, which count dropped ones too."""
        for position, thought in enumerate(self.thoughts, self.dropped):
            if not branch or thought.branchId == branch:
                yield position, thought

    @property
    def length(self) -> int:
        """The number of thoughts so far, with the dropped ones."""
        return self.dropped + len(self.thoughts)

    def has(self, number: int) -> bool:
        """Return True if a kept thought has this number."""
        return any(thought.thoughtNumber == number for thought in self.thoughts)
