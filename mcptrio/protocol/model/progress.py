"""Progress of a request.

Source: MCP 2026-07-28, basic/patterns/progress.
"""

from __future__ import annotations

from typing import TypeAlias

from mcptrio.protocol.model.base import Params
from mcptrio.protocol.model.fields import field, model

__all__ = ["ProgressParams", "ProgressToken"]

ProgressToken: TypeAlias = str | int
"""The sender of a request chooses it, in ``_meta.progressToken``; ``1`` and ``"1"`` are different tokens."""


@model
class ProgressParams(Params):
    """The progress of a request."""

    progress_token: ProgressToken = field()
    progress: float = field()
    """Increases with every notification."""
    total: float | None = field(default=None)
    message: str | None = field(default=None, since="2025-03-26")
