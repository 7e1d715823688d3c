"""Sampling: a server asks the client's model.

Source: MCP 2025-11-25, client/sampling; MCP 2026-07-28, client/sampling.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from mcptrio.protocol.model.base import Params, Result, Role
from mcptrio.protocol.model.content import SamplingContentBlock, joined_text
from mcptrio.protocol.model.fields import Meta, field, model
from mcptrio.protocol.model.tools import Tool

__all__ = [
    "CreateMessageParams",
    "CreateMessageResult",
    "IncludeContext",
    "ModelHint",
    "ModelPreferences",
    "SamplingContent",
    "SamplingContentBlock",
    "SamplingMessage",
    "ToolChoice",
]

IncludeContext: TypeAlias = Literal["none", "thisServer", "allServers"]
"""The servers whose context the client should give to its model."""

SamplingContent: TypeAlias = tuple[SamplingContentBlock, ...]
"""The blocks of one message. On the wire, this is one block or an array of blocks. A single block is written without an
array, because revisions before 2025-11-25 have no array."""


@model
class SamplingMessage:
    """One message of the conversation."""

    role: Role = field()
    content: SamplingContent = field()
    meta: Meta | None = field(default=None, name="_meta", since="2025-11-25")

    @property
    def text(self) -> str:
        """The texts of the text blocks, joined by newlines; empty if there is none."""
        return joined_text(self.content)


@model
class ModelHint:
    """A part of a model's name."""

    name: str | None = field(default=None)


@model
class ModelPreferences:
    """Preferences for the choice of a model; each priority is 0 to 1."""

    hints: tuple[ModelHint, ...] | None = field(default=None)
    """The client uses the first hint that matches a model."""
    cost_priority: float | None = field(default=None)
    speed_priority: float | None = field(default=None)
    intelligence_priority: float | None = field(default=None)


@model
class ToolChoice:
    """Whether the model may, must or must not use a tool."""

    mode: Literal["auto", "required", "none"] | None = field(default=None)


@model
class CreateMessageParams(Params):
    """The parameters of ``sampling/createMessage``."""

    meta: Meta | None = field(default=None, name="_meta", until="2026-07-28")
    messages: tuple[SamplingMessage, ...] = field()
    max_tokens: int = field()
    model_preferences: ModelPreferences | None = field(default=None)
    system_prompt: str | None = field(default=None)
    include_context: IncludeContext | None = field(default=None)
    temperature: float | None = field(default=None)
    stop_sequences: tuple[str, ...] | None = field(default=None)
    metadata: dict[str, Any] | None = field(default=None)
    """Metadata for the provider of the model, kept unchanged."""
    tools: tuple[Tool, ...] | None = field(default=None, since="2025-11-25")
    tool_choice: ToolChoice | None = field(default=None, since="2025-11-25")


@model
class CreateMessageResult(Result):
    """The model's message."""

    result_type: ClassVar[None] = None
    role: Role = field()
    content: SamplingContent = field()
    model: str = field()
    stop_reason: str | None = field(default=None)
    """``endTurn``, ``stopSequence``, ``maxTokens``, ``toolUse``, or a value of the provider."""

    @property
    def text(self) -> str:
        """The texts of the text blocks, joined by newlines; empty if there is none."""
        return joined_text(self.content)
