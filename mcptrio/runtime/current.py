"""The request of the running code, in the only ContextVar of mcptrio.

Code that cannot receive the request as an argument reads it: Python's ``logging``, the questions of a mounted server,
a request that disables its own plugin, and the limiters of threads. The session sets it when a handler starts; child
tasks and threads inherit it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from mcptrio.runtime.request import RequestScope

__all__ = ["CURRENT", "Working"]


class Working(Protocol):
    """Code that works for a request. A handler that outlives its request works for the retry later."""

    @property
    def scope(self) -> RequestScope: ...


CURRENT: ContextVar[Working | None] = ContextVar("mcptrio_request", default=None)
