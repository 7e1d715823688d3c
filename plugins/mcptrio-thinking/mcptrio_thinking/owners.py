"""Who calls, as far as the server knows.

Called by the tools and the resource. The one rule: who has signed in has the same sequences in every session; who has
not has those of the session; and where there is neither, as in 2026-07-28 without authorization, a sequence belongs to
whoever knows its id.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from mcptrio import Context

__all__ = ["Caller", "Owner"]

Owner: TypeAlias = tuple[str | None, ...]


@frozen
class Caller:
    """Who calls."""

    owner: Owner
    """Whose sequences they are."""
    session: str | None
    """In which session, where there is one; two of them with one owner do not go on with each other's sequence."""

    @property
    def is_anonymous(self) -> bool:
        """Whether it cannot be told from others."""
        return self.owner == ("session", None)

    @classmethod
    def of(cls, ctx: Context) -> Caller:
        """The caller of this request."""
        principal, session = ctx.principal, ctx.session_id
        if principal is not None:
            return cls(("principal", principal.issuer, principal.subject), session)
        return cls(("session", session), session)
