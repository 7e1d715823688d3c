"""Which request the current code works for, for those who cannot be handed it: Python's ``logging``, the questions of
a mounted server, the end of a plugin that a request asks for, and the limiters of threads.

Set by the session when a handler starts; inherited by its child tasks and threads.
The one rule: this is the only ContextVar here, and nothing but these four reads it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from mcptrio.runtime.request import RequestScope

__all__ = ["CURRENT", "Working"]


class Working(Protocol):
    """Somebody who works for a request; a handler that outlives one works for its retry later."""

    @property
    def scope(self) -> RequestScope: ...


CURRENT: ContextVar[Working | None] = ContextVar("mcptrio_request", default=None)
