"""The middleware of a server, as its sessions use it."""

from __future__ import annotations

from typing import Protocol

from mcptrio.runtime.request import Wrapper

__all__ = ["MiddlewareProvider"]


class MiddlewareProvider(Protocol):
    """All middleware of a server."""

    around: Wrapper | None
    """``None`` while there is no middleware."""
