"""A sequence as a text for people.

The resource uses it. It contains the thoughts in order, with a note if some are omitted because of the length.
"""

from __future__ import annotations

from .thoughts import Sequence, Thought

__all__ = ["heading", "transcript"]


def transcript(sequence: Sequence, limit: int, pager: str) -> str:
    """The sequence in Markdown.

    Args:
        limit: bytes; if it would be longer, the earliest thoughts are left out.
        pager: the name of the tool that shows them.
    """
    parts: list[str] = []
    size = 0
    for thought in reversed(sequence.thoughts):
        part = f"## {heading(thought)}\n\n{thought.thought}\n"
        size += len(part.encode("utf-8", "surrogatepass")) + 1
        if parts and size > limit:
            break
        parts.append(part)
    left_out = len(sequence.thoughts) - len(parts)
    if left_out:
        parts.append(f"({left_out} earlier thoughts are left out; {pager} shows them.)\n")
    if sequence.dropped:
        parts.append(f"({sequence.dropped} earlier thoughts were dropped to make room.)\n")
    parts.append(f"# Thoughts of {sequence.id}\n")
    return "\n".join(reversed(parts))


def heading(thought: Thought) -> str:
    heading = f"Thought {thought.thoughtNumber} of {thought.totalThoughts}"
    if thought.isRevision or thought.revisesThought is not None:
        heading += f", revising {thought.revisesThought}" if thought.revisesThought is not None else ", a revision"
    if thought.branchFromThought is not None:
        branch = f" {thought.branchId}" if thought.branchId is not None else ""
        heading += f", branch{branch} from {thought.branchFromThought}"
    return heading
