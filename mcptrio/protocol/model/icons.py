"""Icons of servers, tools, resources and prompts.

The peer chooses the URL of an icon. Check its scheme (https, data) and its origin before you show it.

Source: MCP 2026-07-28, basic/index, "Icons".
"""

from __future__ import annotations

from typing import Literal

from mcptrio.protocol.model.fields import field, model

__all__ = ["Icon"]


@model
class Icon:
    """An image for a user interface."""

    src: str = field()
    mime_type: str | None = field(default=None)
    sizes: tuple[str, ...] | None = field(default=None)
    """``48x48``, or ``any`` for scalable formats."""
    theme: Literal["light", "dark"] | None = field(default=None)
