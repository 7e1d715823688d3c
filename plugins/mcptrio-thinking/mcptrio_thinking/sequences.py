"""The stored sequences of all callers, within the limits of the configuration.

``Thinking`` creates the object; the tools and the resource use it. A caller can use only its own sequences. The least
recently used one is deleted when there is no room. No method awaits, so changes need no lock in Trio's single thread.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable

import trio
from attrs import define, field

from mcptrio import ToolError

from .config import Config
from .owners import SequenceOwner
from .thoughts import Sequence, Thought

__all__ = ["Sequences"]

_MAX_CONVERSATIONS = 100
"""Maximum conversations of one caller whose current sequence is stored."""


@define
class _CallerSequences:
    """The sequences of one caller."""

    sequences: OrderedDict[str, Sequence] = field(factory=OrderedDict)
    """The sequences by id, the least recently used first."""
    latest: OrderedDict[str, str] = field(factory=OrderedDict)
    """The id of the sequence that a conversation used last."""

    @property
    def size(self) -> int:
        return sum(sequence.size for sequence in self.sequences.values())


@define(eq=False)
class Sequences:
    """The sequences by their owner."""

    config: Config
    clock: Callable[[], float] = trio.current_time
    _by_owner: OrderedDict[str, _CallerSequences] = field(init=False, factory=OrderedDict)

    def begin(self) -> str:
        """Return a new, unguessable id."""
        return secrets.token_urlsafe(9)

    def latest(self, caller: SequenceOwner) -> str | None:
        """Return the id of the sequence that this conversation used last; ``None`` if it was deleted."""
        owned = self._sequences_of(caller)
        if owned is None or caller.conversation is None:
            return None
        id = owned.latest.get(caller.conversation)
        return id if id in owned.sequences else None

    def find(self, caller: SequenceOwner, id: str) -> Sequence | None:
        """Return a sequence of this caller and mark it as used."""
        owned = self._sequences_of(caller)
        sequence = owned.sequences.get(id) if owned is not None else None
        if owned is not None and sequence is not None:
            self._use(owned, sequence, caller)
        return sequence

    def add(self, caller: SequenceOwner, id: str, thought: Thought) -> Sequence:
        """Add a thought to a sequence, and create the sequence if needed. A full sequence drops its earliest thoughts.

        Raises:
            ToolError: The thought is too long, or it begins a branch and the sequence has too many.
        """
        config = self.config
        length = len(thought.thought.encode("utf-8", "surrogatepass"))
        if length > config.max_thought_bytes:
            raise ToolError(f"expected a thought of at most {config.max_thought_bytes} bytes, got {length}; split it")
        owned = self._sequences_of(caller) or _CallerSequences()
        sequence = owned.sequences.get(id) or Sequence(id)
        if thought.begins_branch(sequence) and len(sequence.branches) >= config.max_branches:
            raise ToolError(
                f"the sequence {id} already has {config.max_branches} branches; continue one of them, or begin another "
                "sequence"
            )
        self._by_owner[caller.owner] = owned
        owned.sequences[id] = sequence
        sequence.add(thought)
        while len(sequence.thoughts) > config.max_thoughts or (
            len(sequence.thoughts) > 1 and sequence.size > config.max_bytes
        ):
            sequence.drop_earliest()
        self._use(owned, sequence, caller)
        while len(owned.sequences) > config.max_sequences or (
            len(owned.sequences) > 1 and owned.size > config.max_bytes
        ):
            owned.sequences.popitem(last=False)
        self._by_owner.move_to_end(caller.owner)
        while len(self._by_owner) > config.max_callers:
            self._by_owner.popitem(last=False)
        return sequence

    def clear(self, caller: SequenceOwner, id: str) -> int:
        """Delete a sequence and return the number of its thoughts."""
        owned = self._sequences_of(caller)
        sequence = owned.sequences.pop(id, None) if owned is not None else None
        return sequence.length if sequence is not None else 0

    def ids(self, caller: SequenceOwner) -> list[str]:
        """Return the ids of the caller's sequences, the most recently used first."""
        owned = self._sequences_of(caller)
        return list(reversed(owned.sequences)) if owned is not None else []

    def expire(self) -> None:
        """Delete expired sequences. The other methods also delete those of their caller."""
        for owner in list(self._by_owner):
            self._expire(owner)

    def __len__(self) -> int:
        """Return the number of sequences of all callers."""
        return sum(len(owned.sequences) for owned in self._by_owner.values())

    def _sequences_of(self, caller: SequenceOwner) -> _CallerSequences | None:
        self._expire(caller.owner)
        return self._by_owner.get(caller.owner)

    def _expire(self, owner: str) -> None:
        owned = self._by_owner.get(owner)
        if owned is None:
            return
        before = self.clock() - self.config.ttl
        while owned.sequences and next(iter(owned.sequences.values())).used <= before:
            owned.sequences.popitem(last=False)
        if not owned.sequences:
            del self._by_owner[owner]

    def _use(self, owned: _CallerSequences, sequence: Sequence, caller: SequenceOwner) -> None:
        sequence.used = self.clock()
        owned.sequences.move_to_end(sequence.id)
        if caller.conversation is not None:
            owned.latest[caller.conversation] = sequence.id
            owned.latest.move_to_end(caller.conversation)
            if len(owned.latest) > _MAX_CONVERSATIONS:
                owned.latest.popitem(last=False)
