"""The sequences of all callers, within bounds.

The plugin makes it, and its tools and resource use it. A caller can use only its own sequences, and the least recently
used one is dropped when there is no room. Nothing here awaits, so changes need no lock in Trio's single thread.
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

_CONVERSATIONS = 100
"""Conversations of one caller whose last sequence is remembered."""


@define
class _CallerSequences:
    """The sequences of one caller."""

    sequences: OrderedDict[str, Sequence] = field(factory=OrderedDict)
    """In order of their last use."""
    latest: OrderedDict[str, str] = field(factory=OrderedDict)
    """The sequence that a conversation was at last."""

    @property
    def size(self) -> int:
        return sum(sequence.size for sequence in self.sequences.values())


@define(eq=False)
class Sequences:
    """Everything that is kept."""

    config: Config
    clock: Callable[[], float] = trio.current_time
    _shelves: OrderedDict[str, _CallerSequences] = field(init=False, factory=OrderedDict)

    def begin(self) -> str:
        """Return a new, unguessable id."""
        return secrets.token_urlsafe(9)

    def latest(self, caller: SequenceOwner) -> str | None:
        """The sequence that this conversation was at last, if it is still there."""
        shelf = self._sequences_of(caller)
        if shelf is None or caller.conversation is None:
            return None
        id = shelf.latest.get(caller.conversation)
        return id if id in shelf.sequences else None

    def find(self, caller: SequenceOwner, id: str) -> Sequence | None:
        """A sequence of this caller; this is a use of it."""
        shelf = self._sequences_of(caller)
        sequence = shelf.sequences.get(id) if shelf is not None else None
        if shelf is not None and sequence is not None:
            self._use(shelf, sequence, caller)
        return sequence

    def add(self, caller: SequenceOwner, id: str, thought: Thought) -> Sequence:
        """Add a thought to its sequence, which is made if there is none with this id. A full one drops its earliest.

        Raises:
            ToolError: the thought is too long, or the sequence has too many branches for another one.
        """
        config = self.config
        length = len(thought.thought.encode("utf-8", "surrogatepass"))
        if length > config.max_thought_bytes:
            raise ToolError(f"expected a thought of at most {config.max_thought_bytes} bytes, got {length}; split it")
        shelf = self._sequences_of(caller) or _CallerSequences()
        sequence = shelf.sequences.get(id) or Sequence(id)
        if thought.begins_branch(sequence) and len(sequence.branches) >= config.max_branches:
            raise ToolError(
                f"the sequence {id} has {config.max_branches} branches already; continue one of them, or in another "
                "sequence"
            )
        self._shelves[caller.owner] = shelf
        shelf.sequences[id] = sequence
        sequence.add(thought)
        while len(sequence.thoughts) > config.max_thoughts or (
            len(sequence.thoughts) > 1 and sequence.size > config.max_bytes
        ):
            sequence.drop_earliest()
        self._use(shelf, sequence, caller)
        while len(shelf.sequences) > config.max_sequences or (
            len(shelf.sequences) > 1 and shelf.size > config.max_bytes
        ):
            shelf.sequences.popitem(last=False)
        self._shelves.move_to_end(caller.owner)
        while len(self._shelves) > config.max_callers:
            self._shelves.popitem(last=False)
        return sequence

    def clear(self, caller: SequenceOwner, id: str) -> int:
        """Forget a sequence. Returns how many thoughts it had."""
        shelf = self._sequences_of(caller)
        sequence = shelf.sequences.pop(id, None) if shelf is not None else None
        return sequence.length if sequence is not None else 0

    def ids(self, caller: SequenceOwner) -> list[str]:
        """The caller's sequences, the last used first."""
        shelf = self._sequences_of(caller)
        return list(reversed(shelf.sequences)) if shelf is not None else []

    def expire(self) -> None:
        """Delete sequences that have not been used for the time to live. Each call also deletes the caller's."""
        for owner in list(self._shelves):
            self._expire(owner)

    def __len__(self) -> int:
        """How many sequences there are, of all callers."""
        return sum(len(shelf.sequences) for shelf in self._shelves.values())

    def _sequences_of(self, caller: SequenceOwner) -> _CallerSequences | None:
        self._expire(caller.owner)
        return self._shelves.get(caller.owner)

    def _expire(self, owner: str) -> None:
        shelf = self._shelves.get(owner)
        if shelf is None:
            return
        before = self.clock() - self.config.ttl
        while shelf.sequences and next(iter(shelf.sequences.values())).used <= before:
            shelf.sequences.popitem(last=False)
        if not shelf.sequences:
            del self._shelves[owner]

    def _use(self, shelf: _CallerSequences, sequence: Sequence, caller: SequenceOwner) -> None:
        sequence.used = self.clock()
        shelf.sequences.move_to_end(sequence.id)
        if caller.conversation is not None:
            shelf.latest[caller.conversation] = sequence.id
            shelf.latest.move_to_end(caller.conversation)
            if len(shelf.latest) > _CONVERSATIONS:
                shelf.latest.popitem(last=False)
