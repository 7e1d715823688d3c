"""The owner of a sequence: the caller, and the conversation.

The tools and the resource use it. A caller with a login has the same sequences in every session; other callers have
those of their session or connection. Without either, as over HTTP in 2026-07-28 without authorization, the id alone
gives access to a sequence.
"""

from __future__ import annotations

from attrs import frozen

from mcptrio import ANONYMOUS, Context

__all__ = ["SequenceOwner"]


@frozen
class SequenceOwner:
    """The owner of sequences."""

    owner: str
    """Whose sequences they are."""
    conversation: str | None
    """The session or connection, if known. Two conversations of one owner do not continue each other's sequence."""

    @property
    def is_anonymous(self) -> bool:
        """Whether the caller cannot be distinguished from others."""
        return self.owner == ANONYMOUS

    @classmethod
    def of(cls, ctx: Context) -> SequenceOwner:
        """The caller of this request."""
        conversation = ctx.session_id
        if conversation is None and ctx.principal is None and ctx.caller != ANONYMOUS:
            # An anonymous caller is identified by the connection.
            conversation = ctx.caller
        return cls(ctx.caller, conversation)
