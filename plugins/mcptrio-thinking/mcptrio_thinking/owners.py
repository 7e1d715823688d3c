"""The owner of a sequence: the caller, and the conversation.

The tools and the resource use it. An authenticated caller has the same sequences in all sessions; other callers have
those of their session or connection. Without either, as over HTTP in 2026-07-28 without authorization, the id alone
gives access to a sequence.
"""

from __future__ import annotations

from attrs import frozen

from mcptrio import ANONYMOUS, Context

__all__ = ["SequenceOwner"]


@frozen
class SequenceOwner:
    """The owner of sequences, and the conversation of a request."""

    owner: str
    """The caller whose sequences they are."""
    conversation: str | None
    """The session or connection, if known. A conversation does not continue the sequence of another one by default."""

    @property
    def is_anonymous(self) -> bool:
        """True if the caller cannot be distinguished from others."""
        return self.owner == ANONYMOUS

    @classmethod
    def of(cls, ctx: Context) -> SequenceOwner:
        """Return the owner for a request."""
        conversation = ctx.session_id
        if conversation is None and ctx.principal is None and ctx.caller != ANONYMOUS:
            # An anonymous caller is identified by the connection.
            conversation = ctx.caller
        return cls(ctx.caller, conversation)
