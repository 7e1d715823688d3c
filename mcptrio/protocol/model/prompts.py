"""Prompts: message templates that a user can choose.

Source: MCP 2026-07-28, server/prompts.
"""

from __future__ import annotations

from typing import Any

from mcptrio.protocol.model.base import CacheableResult, Params, Result, Role
from mcptrio.protocol.model.content import ContentBlock, joined_text
from mcptrio.protocol.model.fields import Meta, field, model
from mcptrio.protocol.model.icons import Icon

__all__ = [
    "GetPromptParams",
    "GetPromptResult",
    "ListPromptsParams",
    "ListPromptsResult",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
]


@model
class PromptArgument:
    """One argument of a prompt; its value is a string."""

    name: str = field()
    title: str | None = field(default=None, since="2025-06-18")
    description: str | None = field(default=None)
    required: bool = field(default=False)


@model
class Prompt:
    """A prompt in a list."""

    name: str = field()
    title: str | None = field(default=None, since="2025-06-18")
    description: str | None = field(default=None)
    arguments: tuple[PromptArgument, ...] = field(default=())
    icons: tuple[Icon, ...] | None = field(default=None, since="2025-11-25")
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model
class PromptMessage:
    """One message of a prompt."""

    role: Role = field()
    content: ContentBlock = field()

    @property
    def text(self) -> str:
        """The text of the content; empty if it is of another type."""
        return joined_text([self.content])


@model
class ListPromptsParams(Params):
    """The parameters of ``prompts/list``."""

    cursor: str | None = field(default=None)


@model
class ListPromptsResult(CacheableResult):
    """One page of the answer to ``prompts/list``."""

    prompts: tuple[Prompt, ...] = field()
    next_cursor: str | None = field(default=None)
    """``None`` at the end; the empty string is a valid cursor."""


@model
class GetPromptParams(Params):
    """The parameters of ``prompts/get``."""

    name: str = field()
    arguments: dict[str, str] = field(factory=dict)
    """Absent on the wire if empty."""
    input_responses: dict[str, Any] | None = field(default=None, since="2026-07-28")
    request_state: str | None = field(default=None, since="2026-07-28")


@model
class GetPromptResult(Result):
    """The answer to ``prompts/get``."""

    messages: tuple[PromptMessage, ...] = field()
    description: str | None = field(default=None)

    @property
    def text(self) -> str:
        """The texts of the messages, joined by newlines; empty if there is none."""
        return joined_text([each.content for each in self.messages])
