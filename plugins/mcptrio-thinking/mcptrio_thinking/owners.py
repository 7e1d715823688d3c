"""Who calls, and in which conversation.

Called by the tools and the resource. The one rule: who has signed in has the same sequences in every session; who has
not has those of the session or the connection; and where there is neither, as over HTTP in 2026-07-28 without
authorization, a sequence belongs to whoever knows its id.
"""

from __future__ import annotations

from attrs import frozen

from mcptrio import ANONYMOUS, Context

__all__ = ["SequenceOwner"]


@frozen
class SequenceOwner:
    """Who calls."""

    owner: str
    """Whose sequences they are."""
    conversation: str | None
    """In which session or connection, where that is known; two of them with one owner do not go on with each other's
    sequence."""

    @property
    def is_anonymous(self) -> bool:
        """Whether it cannot be told from others."""
        return self.owner == ANONYMOUS

    @classmethod
    def of(cls, ctx: Context) -> SequenceOwner:
        """The caller of this request."""
        conversation = ctx.session_id
        if conversation is None and ctx.principal is None and ctx.caller != ANONYMOUS:
            # Who is nobody is known by the connection.
            conversation = ctx.caller
        return cls(ctx.caller, conversation)
