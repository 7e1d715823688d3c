"""The interface of a request that stays open without a task: a subscription of 2026-07-28.

:class:`mcptrio.runtime.request.RequestScope` holds it from ``keep_open`` until its end.
"""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["OpenRequest"]


class OpenRequest(Protocol):
    """A request that stays open without a task."""

    def result(self) -> Any:
        """Return the result of the method when the server stops. Does not block or raise."""
        ...

    def on_closed(self) -> None:
        """Called once when the request has ended, for any reason. Does not block or raise."""
        ...
