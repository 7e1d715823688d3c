"""Which request the current code works for, for those who cannot be handed it: Python's ``logging``, and what a server
that is mounted asks while it is called for a request.

Set by the session when a handler starts; inherited by its child tasks and threads.
The one rule: this is the only ContextVar here, and nothing but the log bridge and the mounting of servers reads it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mcptrio.runtime.request_scope import RequestScope

__all__ = ["CURRENT", "Working"]


class Working(Protocol):
    """Somebody who works for a request; a handler that outlives one works for its retry later."""

    @property
    def scope(self) -> RequestScope: ...


CURRENT: ContextVar[Working | None] = ContextVar("mcptrio_request", default=None)
