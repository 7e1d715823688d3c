"""Log messages for the client.

Source: MCP 2025-11-25, server/utilities/logging; MCP 2026-07-28, server/utilities/logging (levels: RFC 5424).
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from mcptrio.protocol.model.base import Params
from mcptrio.protocol.model.fields import field, model

__all__ = ["LEVELS", "LoggingLevel", "LoggingMessageParams", "SetLevelParams"]

LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""The severity of a log message (RFC 5424)."""

LEVELS: Final[tuple[LoggingLevel, ...]] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""All levels, from the least to the most severe."""


@model
class SetLevelParams(Params):
    """The minimum level of log messages to send (handshake revisions)."""

    level: LoggingLevel = field()


@model
class LoggingMessageParams(Params):
    """A log message."""

    level: LoggingLevel = field()
    data: Any = field()
    """Any JSON value."""
    logger: str | None = field(default=None)
