"""The tools and the resource, which the plugin registers.

The tools store the model's thoughts, count them, and return them.

Source: name, arguments and results of ``sequentialthinking`` in the reference sequential thinking server (2026.8.31);
``sequence_id``, get_sequence, clear_sequence and the resource are additions.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import trio
from attrs import field, frozen
from msgspec import Meta

from mcptrio import Context, PluginSetup, ResourceNotFound, ToolError, completion, hookimpl, resource, tool

from .config import Config
from .owners import SequenceOwner
from .sequences import Sequences
from .thoughts import Sequence, Thought
from .transcript import transcript

__all__ = ["TEMPLATE", "Cleared", "Noted", "Thinking", "Thoughts"]

TEMPLATE: Final = "thinking://{sequence_id}"
_EXPIRY_INTERVAL: Final = 60.0
"""Seconds between two deletions of expired sequences; each call deletes them as well."""

_MAX_THOUGHT_NUMBER: Final = 9_999_999

# Models often write numbers and booleans as strings, so the schema has both forms.
_Number = Annotated[int, Meta(ge=1, le=_MAX_THOUGHT_NUMBER)] | Annotated[str, Meta(pattern="^0{0,9}[1-9][0-9]{0,6}$")]
_Flag = bool | Literal["true", "false", "True", "False"]
_Name = Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{1,64}$")]
_SequenceId = Annotated[
    _Name | None,
    "The sequence: the sequence_id of a previous result, or your own name, 1 to 64 of A-Za-z0-9_.-",
]


@frozen(kw_only=True)
class Noted:
    """What became of a thought."""

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
    total: Annotated[int, "Number of thoughts, in this branch if one was requested."]
    branches: tuple[str, ...]
    truncated: Annotated[bool, "There are more."]
    next_cursor: Annotated[str | None, "The cursor of the next page."] = None


@frozen(kw_only=True)
class Cleared:
    """The result of clear_sequence."""

    sequence_id: str
    thoughts: Annotated[int, "Number of deleted thoughts; 0 if the sequence did not exist."]


@frozen
class Thinking:
    """The tools and the resource for all stored sequences."""

    config: Config
    sequences: Sequences = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "sequences", Sequences(self.config))

    @tool(title="Sequential Thinking", read_only=False, destructive=False, idempotent=False, open_world=False)
    async def sequentialthinking(
        self,
        ctx: Context,
        thought: Annotated[str, Meta(min_length=1, description="Your current thinking step.")],
        nextThoughtNeeded: Annotated[_Flag, "Whether another thought step is needed."],
        thoughtNumber: Annotated[_Number, "Current thought number, from 1."],
        totalThoughts: Annotated[_Number, "Estimated total thoughts needed; may go up and down."],
        isRevision: Annotated[_Flag | None, "Whether this revises previous thinking."] = None,
        revisesThought: Annotated[_Number | None, "The number of the thought that this one revises."] = None,
        branchFromThought: Annotated[_Number | None, "The thought number from which this branch starts."] = None,
        branchId: Annotated[Annotated[str, Meta(max_length=200)] | None, "Branch identifier."] = None,
        needsMoreThoughts: Annotated[_Flag | None, "More thoughts are needed than totalThoughts."] = None,
        sequence_id: _SequenceId = None,
    ) -> Noted:
        """Think through a problem step by step, where each thought can build on, question or revise those before it.

        Use it for planning, design and analysis that need several steps, if the scope is not clear at the
        beginning, or if you may have to correct earlier steps. Start with an estimate in totalThoughts and
        adjust it as you continue; revise with isRevision and revisesThought; try an alternative with
        branchFromThought and branchId. State a hypothesis, check it against the earlier steps, and set
        nextThoughtNeeded to false only when you are satisfied with the answer.

        The thoughts are stored as a sequence. Pass the sequence_id of the result with the next thought; without
        it, thought 1 starts a new sequence.
        """
        caller = SequenceOwner.of(ctx)
        number, total = int(thoughtNumber), int(totalThoughts)
        revises = int(revisesThought) if revisesThought is not None else None
        branches_from = int(branchFromThought) if branchFromThought is not None else None
        begins = number == 1 and revises is None and branches_from is None
        id = sequence_id or self._going_on(caller, begins)
        kept = Thought(
            thought=thought,
            thoughtNumber=number,
            totalThoughts=max(number, total),
            nextThoughtNeeded=_truth(nextThoughtNeeded),
            isRevision=_truth(isRevision),
            revisesThought=revises,
            branchFromThought=branches_from,
            branchId=branchId or None,
            needsMoreThoughts=_truth(needsMoreThoughts),
        )
        before = self.sequences.find(caller, id)
        notes = _notes(before, kept)
        sequence = self.sequences.add(caller, id, kept)
        ctx.notify_resource_updated(_uri(id))
        return Noted(
            thoughtNumber=kept.thoughtNumber,
            totalThoughts=kept.totalThoughts,
            nextThoughtNeeded=kept.nextThoughtNeeded,
            branches=tuple(sequence.branches),
            thoughtHistoryLength=len(sequence.thoughts),
            sequence_id=id,
            notes=notes,
        )

    @tool(title="Get Sequence", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def get_sequence(
        self,
        ctx: Context,
        sequence_id: _SequenceId = None,
        branchId: Annotated[str | None, "Only the thoughts on this branch."] = None,
        limit: Annotated[Annotated[int, Meta(ge=1, le=10_000)] | None, "Maximum number of thoughts."] = None,
        cursor: Annotated[
            Annotated[str, Meta(pattern="^[0-9]{1,9}$")] | None,
            "next_cursor of the previous result.",
        ] = None,
    ) -> Thoughts:
        """Read the thoughts of a sequence again, for example after the conversation was shortened."""
        sequence = self._sequence(SequenceOwner.of(ctx), sequence_id)
        thoughts = [each for each in sequence.thoughts if branchId is None or each.branchId == branchId]
        start = int(cursor or 0)
        end, size = start, 0
        most = min(limit or self.config.max_answer_thoughts, self.config.max_answer_thoughts)
        for thought in thoughts[start : start + most]:
            size += thought.size
            if end > start and size > self.config.max_answer_bytes:
                break
            end += 1
        return Thoughts(
            sequence_id=sequence.id,
            items=tuple(thoughts[start:end]),
            total=len(thoughts),
            branches=tuple(sequence.branches),
            truncated=end < len(thoughts),
            next_cursor=str(end) if end < len(thoughts) else None,
        )

    @tool(title="Clear Sequence", read_only=False, destructive=True, idempotent=True, open_world=False)
    async def clear_sequence(self, ctx: Context, sequence_id: Annotated[_Name, "The sequence to delete."]) -> Cleared:
        """Delete a sequence and all its thoughts. Its id can be used again."""
        thoughts = self.sequences.clear(SequenceOwner.of(ctx), sequence_id)
        if thoughts:
            ctx.notify_resource_updated(_uri(sequence_id))
        return Cleared(sequence_id=sequence_id, thoughts=thoughts)

    @resource(TEMPLATE, name="sequence", title="A sequence of thoughts", mime_type="text/markdown")
    async def sequence(self, ctx: Context, sequence_id: str) -> str:
        """The transcript of a sequence; for a very long one, its end."""
        found = self.sequences.find(SequenceOwner.of(ctx), sequence_id)
        if found is None:
            raise ResourceNotFound(_uri(sequence_id))
        return transcript(found, self.config.max_answer_bytes, ctx.tool_name("get_sequence"))

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

    def _going_on(self, caller: SequenceOwner, begins: bool) -> str:
        """Return the sequence of a thought without a sequence_id."""
        if begins:
            return self.sequences.begin()
        id = self.sequences.latest(caller)
        if id is not None:
            return id
        if caller.conversation is not None:
            return self.sequences.begin()  # as in the reference server, in which a history may begin with any thought
        raise ToolError(
            "expected sequence_id, from the result of thought 1, or your own name for the sequence: on this connection "
            "the server cannot know which sequence continues"
        )

    def _sequence(self, caller: SequenceOwner, id: str | None) -> Sequence:
        id = id or self.sequences.latest(caller)
        if id is None:
            raise ToolError("expected sequence_id, from the result of a thought, got none")
        found = self.sequences.find(caller, id)
        if found is None:
            raise ToolError(
                f"no such sequence: {id}; it was cleared, or evicted after {self.config.ttl:g} seconds "
                "without use or because there are too many"
            )
        return found


def _notes(sequence: Sequence | None, thought: Thought) -> tuple[str, ...]:
    """Return notes on contradictions. The thought is kept anyway, as in the reference server."""
    notes = []
    for name, number in (("revisesThought", thought.revisesThought), ("branchFromThought", thought.branchFromThought)):
        if number is not None and (sequence is None or not sequence.has(number)):
            notes.append(f"{name}: there is no thought {number} in this sequence")
    if thought.isRevision and thought.revisesThought is None:
        notes.append("isRevision: revisesThought does not say which thought")
    if (thought.branchFromThought is None) != (thought.branchId is None):
        notes.append("a branch needs both branchFromThought and branchId")
    return tuple(notes)


def _truth(flag: bool | str | None) -> bool:
    return flag.lower() == "true" if isinstance(flag, str) else bool(flag)


def _uri(id: str) -> str:
    return f"thinking://{id}"
