"""Cancellation of a request.

Source: MCP 2026-07-28, basic/patterns/cancellation.
"""

from __future__ import annotations

from mcptrio.protocol.messages import RequestId
from mcptrio.protocol.model.base import Params
from mcptrio.protocol.model.fields import field, model

__all__ = ["CancelledParams"]


@model
class CancelledParams(Params):
    """The parameters of ``notifications/cancelled``: the sender no longer waits for the response."""

    request_id: RequestId = field()
    reason: str | None = field(default=None)
