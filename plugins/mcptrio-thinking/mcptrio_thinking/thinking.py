"""The tools, which store the thoughts of a model and return them, and the resource with the transcript.

mcptrio registers them.

Source: name, arguments and results of ``sequentialthinking`` in the reference sequential thinking server (2026.8.31);
``sequence_id``, get_sequence, clear_sequence and the resource are additions.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import trio
from attrs import field, frozen
from msgspec import Meta

from mcptrio import Context, PluginSetup, ResourceNotFound, ToolError, completion, hookimpl, resource, tool

from .config import Config
from .owners import SequenceOwner
from .sequences import Sequences
from .thoughts import Sequence, Thought
from .transcript import heading, transcript

__all__ = ["TEMPLATE", "Cleared", "Noted", "Thinking", "Thoughts", "cleared_text", "noted_text", "thoughts_text"]

TEMPLATE: Final = "thinking://{sequence_id}"
_EXPIRY_INTERVAL: Final = 60.0
"""Seconds between two deletions of expired sequences."""

_MAX_THOUGHT_NUMBER: Final = 9_999_999

_MAX_BRANCH_CHARS: Final = 200
_Number = Annotated[int, Meta(ge=1, le=_MAX_THOUGHT_NUMBER)]
_OtherNumber = Annotated[int, Meta(ge=0, le=_MAX_THOUGHT_NUMBER)]
"""The number of another thought; 0 for none."""
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@frozen(kw_only=True)
class Noted:
    """The state of the sequence after a thought was added."""

    thoughtNumber: int
    totalThoughts: Annotated[int, "At least thoughtNumber."]
    nextThoughtNeeded: bool
    branches: Annotated[tuple[str, ...], "The branches of this sequence."]
    thoughtHistoryLength: Annotated[int, "Number of thoughts in this sequence."]
    sequence_id: Annotated[str, "Pass it with the next thought."]
    notes: Annotated[tuple[str, ...], "Inconsistencies between the arguments and the sequence."] = ()


@frozen(kw_only=True)
class Thoughts:
    """Thoughts of a sequence."""

    sequence_id: str
    items: Annotated[tuple[Thought, ...], "In the order in which they were added."]
    total: Annotated[int, "Number of kept thoughts, in this branch if one was requested."]
    branches: tuple[str, ...]
    truncated: Annotated[bool, "There are more."]
    next_cursor: Annotated[str | None, "The cursor of the next page."] = None
    dropped: Annotated[int, "Number of earlier thoughts that were dropped to make room."] = 0


@frozen(kw_only=True)
class Cleared:
    """The result of clear_sequence."""

    sequence_id: str
    thoughts: Annotated[int, "Number of deleted thoughts; 0 if the sequence did not exist."]


def noted_text(noted: Noted) -> str:
    facts = [f"thought {noted.thoughtNumber} of {noted.totalThoughts}", f"sequence_id={noted.sequence_id}"]
    if noted.thoughtHistoryLength != noted.thoughtNumber:
        facts.append(f"{noted.thoughtHistoryLength} thoughts so far")
    if noted.branches:
        facts.append(f"branches: {', '.join(noted.branches)}")
    return "\n".join(["; ".join(facts), *(f"note: {note}" for note in noted.notes)])


def thoughts_text(thoughts: Thoughts) -> str:
    lines = [f"[{thoughts.dropped} earlier thoughts were dropped to make room]"] if thoughts.dropped else []
    lines += [f"{heading(thought)}: {thought.thought}" for thought in thoughts.items]
    if thoughts.next_cursor is not None:
        lines.append(f"[{thoughts.total} thoughts; more follow: pass cursor={thoughts.next_cursor}]")
    return "\n".join(lines) or "no thoughts"


def cleared_text(cleared: Cleared) -> str:
    return f"{cleared.thoughts} thoughts deleted"


@frozen
class Thinking:
    """The tools and the resource for all stored sequences."""

    config: Config
    sequences: Sequences = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "sequences", Sequences(self.config))

    @tool(
        text=noted_text,
        title="Sequential Thinking",
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
    )
    async def sequentialthinking(
        self,
        ctx: Context,
        thought: Annotated[str, Meta(min_length=1, description="Your current step.")],
        nextThoughtNeeded: bool,
        thoughtNumber: _Number,
        totalThoughts: Annotated[_Number, "Estimate; may change."],
        isRevision: bool = False,
        revisesThought: Annotated[_OtherNumber, "Number of the revised thought."] = 0,
        branchFromThought: Annotated[_OtherNumber, "Number of the thought where the branch starts."] = 0,
        branchId: Annotated[str, "Name of the branch."] = "",
        needsMoreThoughts: Annotated[bool, "More than totalThoughts are needed."] = False,
        sequence_id: Annotated[str, "sequence_id of the previous result, or your own name."] = "",
    ) -> Noted:
        """Think through a problem step by step; each thought can build on, question or revise those before it.

        Use it for planning and analysis in several steps. State a hypothesis, check it against earlier thoughts,
        revise them or branch off, and set nextThoughtNeeded to false only when you are satisfied with the answer.
        Thought 1 starts a new sequence; pass its sequence_id with the next thoughts.
        """
        caller = SequenceOwner.of(ctx)
        if len(branchId) > _MAX_BRANCH_CHARS:
            raise ToolError(f"expected at most {_MAX_BRANCH_CHARS} characters at `branchId`, got {len(branchId)}")
        begins = thoughtNumber == 1 and not revisesThought and not branchFromThought
        id = _valid_id(sequence_id) or self._sequence_id_for(caller, begins)
        stored = Thought(
            thought=thought,
            thoughtNumber=thoughtNumber,
            totalThoughts=max(thoughtNumber, totalThoughts),
            nextThoughtNeeded=nextThoughtNeeded,
            isRevision=isRevision,
            revisesThought=revisesThought or None,
            branchFromThought=branchFromThought or None,
            branchId=branchId or None,
            needsMoreThoughts=needsMoreThoughts,
        )
        before = self.sequences.find(caller, id)
        notes = _contradictions(before, stored)
        sequence = self.sequences.add(caller, id, stored)
        ctx.notify_resource_updated(_uri(id))
        return Noted(
            thoughtNumber=stored.thoughtNumber,
            totalThoughts=stored.totalThoughts,
            nextThoughtNeeded=stored.nextThoughtNeeded,
            branches=tuple(sequence.branches),
            thoughtHistoryLength=sequence.length,
            sequence_id=id,
            notes=notes,
        )

    @tool(
        text=thoughts_text, title="Get Sequence", read_only=True, destructive=False, idempotent=True, open_world=False
    )
    async def get_sequence(
        self,
        ctx: Context,
        sequence_id: str = "",
        branchId: Annotated[str, "Only this branch."] = "",
        limit: Annotated[int, Meta(ge=1)] = 100,
        cursor: str = "",
    ) -> Thoughts:
        """Read the thoughts of a sequence again, for example after the conversation was shortened."""
        sequence = self._find_sequence(SequenceOwner.of(ctx), _valid_id(sequence_id))
        thoughts = list(sequence.positions(branchId))
        if not re.fullmatch(r"[0-9]{0,9}", cursor):
            raise ToolError("expected the cursor of the previous page at `cursor`, got another text")
        max_items = min(limit, self.config.max_answer_thoughts)
        items: list[Thought] = []
        size, next_cursor = 0, None
        for position, thought in thoughts:
            if position < int(cursor or 0):
                continue
            size += thought.size
            if len(items) == max_items or (items and size > self.config.max_answer_bytes):
                next_cursor = str(position)
                break
            items.append(thought)
        return Thoughts(
            sequence_id=sequence.id,
            items=tuple(items),
            total=len(thoughts),
            branches=tuple(sequence.branches),
            truncated=next_cursor is not None,
            next_cursor=next_cursor,
            dropped=sequence.dropped,
        )

    @tool(
        text=cleared_text, title="Clear Sequence", read_only=False, destructive=True, idempotent=True, open_world=False
    )
    async def clear_sequence(self, ctx: Context, sequence_id: str) -> Cleared:
        """Delete a sequence and its thoughts."""
        _valid_id(sequence_id)
        thoughts = self.sequences.clear(SequenceOwner.of(ctx), sequence_id)
        if thoughts:
            ctx.notify_resource_updated(_uri(sequence_id))
        return Cleared(sequence_id=sequence_id, thoughts=thoughts)

    @resource(TEMPLATE, name="sequence", title="A sequence of thoughts", mime_type="text/markdown")
    async def sequence(self, ctx: Context, sequence_id: str) -> str:
        """The transcript of a sequence; for a very long one, its end."""
        sequence = self.sequences.find(SequenceOwner.of(ctx), sequence_id)
        if sequence is None:
            raise ResourceNotFound(_uri(sequence_id))
        return transcript(sequence, self.config.max_answer_bytes, ctx.tool_name("get_sequence"))

    @completion("resource", TEMPLATE, "sequence_id")
    async def complete(self, ctx: Context) -> list[str]:
        """Return the ids of the caller's sequences; none if callers cannot be distinguished, because an id gives
        access."""
        caller = SequenceOwner.of(ctx)
        return [] if caller.is_anonymous else self.sequences.ids(caller)

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """Add the task that deletes expired sequences while no call does."""
        server.add_background(self.expire)

    async def expire(self) -> None:
        """Delete expired sequences until cancelled."""
        while True:
            await trio.sleep(min(_EXPIRY_INTERVAL, self.config.ttl))
            self.sequences.expire()

    def _sequence_id_for(self, caller: SequenceOwner, begins: bool) -> str:
        """Return the id for a thought without a sequence_id.

        Raises:
            ToolError: The caller has no conversation, so the server cannot know which sequence the thought continues.
        """
        if begins:
            return self.sequences.begin()
        id = self.sequences.latest(caller)
        if id is not None:
            return id
        if caller.conversation is not None:
            return self.sequences.begin()  # as in the reference server, a sequence may begin with any thought
        raise ToolError(
            "expected sequence_id, from the result of thought 1, or your own name for the sequence: on this connection "
            "the server cannot know which sequence continues"
        )

    def _find_sequence(self, caller: SequenceOwner, id: str) -> Sequence:
        id = id or self.sequences.latest(caller) or ""
        if not id:
            raise ToolError("expected sequence_id, from the result of a thought, got none")
        sequence = self.sequences.find(caller, id)
        if sequence is None:
            raise ToolError(
                f"no such sequence: {id}; it was cleared, or evicted after {self.config.ttl:g} seconds "
                "without use or because there are too many"
            )
        return sequence


def _contradictions(sequence: Sequence | None, thought: Thought) -> tuple[str, ...]:
    """Return notes on contradictions in a thought. The thought is stored anyway, as in the reference server."""
    notes = []
    for name, number in (("revisesThought", thought.revisesThought), ("branchFromThought", thought.branchFromThought)):
        if number is not None and (sequence is None or not sequence.has(number)):
            notes.append(f"{name}: there is no thought {number} in this sequence")
    if thought.isRevision and thought.revisesThought is None:
        notes.append("isRevision: revisesThought does not say which thought")
    if (thought.branchFromThought is None) != (thought.branchId is None):
        notes.append("a branch needs both branchFromThought and branchId")
    return tuple(notes)


def _valid_id(id: str) -> str:
    if id and not _ID.fullmatch(id):
        raise ToolError(f"expected 1 to 64 characters A-Za-z0-9_.- at `sequence_id`, got {id[:80]!r}")
    return id


def _uri(id: str) -> str:
    return f"thinking://{id}"
