"""The interface through which sessions use the middleware of a server."""

from __future__ import annotations

from typing import Protocol

from mcptrio.runtime.request import Wrapper

__all__ = ["MiddlewareProvider"]


class MiddlewareProvider(Protocol):
    """The middleware of a server."""

    around: Wrapper | None
    """Calls the handler of a request within all middleware; ``None`` while there is none."""
