"""One thought, and a sequence of thoughts.

The tool creates thoughts, and ``Sequences`` stores them. A thought is immutable; a revision is another thought that
refers to the revised one.

Source: the tool ``sequentialthinking`` of the reference sequential thinking server (2026.8.31). The fields are named
after its arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Annotated

from attrs import define, field, frozen

__all__ = ["Sequence", "Thought"]

_OVERHEAD_BYTES = 300
"""Approximate memory of a thought in addition to its texts."""


@frozen(kw_only=True)
class Thought:
    """One step of a sequence."""

    thought: str
    thoughtNumber: int
    totalThoughts: int
    nextThoughtNeeded: bool
    isRevision: Annotated[bool, "It revises another one."] = False
    revisesThought: Annotated[int | None, "Number of the revised thought."] = None
    branchFromThought: Annotated[int | None, "Number of the thought where its branch starts."] = None
    branchId: Annotated[str | None, "Name of its branch."] = None
    needsMoreThoughts: Annotated[bool, "More than totalThoughts are needed."] = False

    @property
    def size(self) -> int:
        """The size of the thought in bytes, for the limits."""
        name = (self.branchId or "").encode("utf-8", "surrogatepass")
        return len(self.thought.encode("utf-8", "surrogatepass")) + len(name) + _OVERHEAD_BYTES

    def begins_branch(self, sequence: Sequence) -> bool:
        """Return True if the thought is the first one of its branch."""
        return self._is_on_branch and self.branchId not in sequence.branches

    @property
    def _is_on_branch(self) -> bool:
        return self.branchFromThought is not None and self.branchId is not None


@define
class Sequence:
    """Thoughts in the order in which they were added."""

    id: str
    thoughts: deque[Thought] = field(init=False, factory=deque)
    dropped: int = field(init=False, default=0)
    """The number of earlier thoughts that were dropped to make room."""
    branches: dict[str, int] = field(init=False, factory=dict)
    """The number of thoughts of each branch, by its name, in the order in which the branches began."""
    size: int = field(init=False, default=0)
    used: float = field(init=False, default=0.0)
    """The Trio clock time of the last use."""

    def add(self, thought: Thought) -> None:
        """Append a thought."""
        self.thoughts.append(thought)
        self.size += thought.size
        if thought.branchFromThought is not None and thought.branchId is not None:
            self.branches[thought.branchId] = self.branches.get(thought.branchId, 0) + 1

    def drop_earliest(self) -> None:
        """Drop the earliest thought. Its branch remains listed, so that it can be continued."""
        self.size -= self.thoughts.popleft().size
        self.dropped += 1

    def positions(self, branch: str) -> Iterator[tuple[int, Thought]]:
        """Yield the stored thoughts of a branch with their positions in the sequence, including dropped thoughts.

        Args:
            branch: The name of the branch; empty for all thoughts.
        """
        for position, thought in enumerate(self.thoughts, self.dropped):
            if not branch or thought.branchId == branch:
                yield position, thought

    @property
    def length(self) -> int:
        """The number of thoughts, including dropped ones."""
        return self.dropped + len(self.thoughts)

    def has(self, number: int) -> bool:
        """Return True if a stored thought has this number."""
        return any(thought.thoughtNumber == number for thought in self.thoughts)
