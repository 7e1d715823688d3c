"""The transcript of a sequence for users.

The resource returns it. A transcript has the thoughts in order, and a note if the earliest ones are omitted.
"""

from __future__ import annotations

from .thoughts import Sequence, Thought

__all__ = ["heading", "transcript"]


def transcript(sequence: Sequence, limit: int, pager: str) -> str:
    """Return a sequence in Markdown.

    Args:
        limit: Maximum size in bytes. The earliest thoughts are omitted if the transcript would be larger.
        pager: The name of the tool that returns the omitted thoughts.
    """
    parts: list[str] = []
    size = 0
    for thought in reversed(sequence.thoughts):
        part = f"## {heading(thought)}\n\n{thought.thought}\n"
        size += len(part.encode("utf-8", "surrogatepass")) + 1
        if parts and size > limit:
            break
        parts.append(part)
    omitted = len(sequence.thoughts) - len(parts)
    if omitted:
        parts.append(f"({omitted} earlier thoughts are left out; {pager} shows them.)\n")
    if sequence.dropped:
        parts.append(f"({sequence.dropped} earlier thoughts were dropped to make room.)\n")
    parts.append(f"# Thoughts of {sequence.id}\n")
    return "\n".join(reversed(parts))


def heading(thought: Thought) -> str:
    """Return the heading of a thought: its number, revision and branch."""
    heading = f"Thought {thought.thoughtNumber} of {thought.totalThoughts}"
    if thought.isRevision or thought.revisesThought is not None:
        heading += f", revising {thought.revisesThought}" if thought.revisesThought is not None else ", a revision"
    if thought.branchFromThought is not None:
        branch = f" {thought.branchId}" if thought.branchId is not None else ""
        heading += f", branch{branch} from {thought.branchFromThought}"
    return heading
