"""Whose memo a call means.

Called by the insights. The one rule: who has signed in has one memo everywhere; otherwise each session has its own; and
where there are neither, as over stdio in 2026-07-28, there is one.
"""

from __future__ import annotations

from mcptrio import Context

__all__ = ["Owner", "owner_of"]

Owner = tuple[str | None, ...]


def owner_of(ctx: Context) -> Owner:
    """What tells one caller from another, as far as the server knows."""
    principal = ctx.principal
    if principal is not None:
        return ("principal", principal.issuer, principal.subject)
    return ("session", ctx.session_id)
