"""The request for which the current code runs, in the only ContextVar of mcptrio.

The session sets it when a handler starts; child tasks and threads inherit it. It is read by code that cannot receive
the request as an argument: Python's ``logging``, the questions of a mounted server, a request that disables its own
plugin, and the limiters of threads.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from mcptrio.runtime.request import RequestScope

__all__ = ["CURRENT", "HasRequestScope"]


class HasRequestScope(Protocol):
    """An object with a request scope. A handler that outlives its request changes to the scope of the retry."""

    @property
    def scope(self) -> RequestScope: ...


CURRENT: ContextVar[HasRequestScope | None] = ContextVar("mcptrio_request", default=None)
