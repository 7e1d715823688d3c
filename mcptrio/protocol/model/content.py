"""Content blocks in tool results, prompts and sampling messages.

The member ``type`` identifies a block. A block of an unknown type is kept unchanged.

Source: MCP 2026-07-28, server/tools, "Tool Result"; schema.ts, "ContentBlock", "SamplingMessageContentBlock".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias

from mcptrio.protocol.model.base import Role
from mcptrio.protocol.model.fields import ABSENT, Meta, field, model
from mcptrio.protocol.model.icons import Icon
from mcptrio.protocol.model.resource_contents import ResourceContents

__all__ = [
    "Annotations",
    "AudioContent",
    "ContentBlock",
    "EmbeddedResource",
    "ImageContent",
    "ResourceLink",
    "SamplingContentBlock",
    "TextContent",
    "ToolResultContent",
    "ToolUseContent",
    "UnknownContent",
    "joined_text",
]


@model
class Annotations:
    """Hints for the reader of a block or a resource."""

    audience: tuple[Role, ...] | None = field(default=None)
    priority: float | None = field(default=None)
    """From 0 (may be omitted) to 1 (effectively required)."""
    last_modified: str | None = field(default=None, since="2025-06-18")
    """A time in ISO 8601."""


@model(tag="type")
class TextContent:
    """Text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str = field()
    annotations: Annotations | None = field(default=None)
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model(tag="type")
class ImageContent:
    """An image."""

    type: ClassVar[Literal["image"]] = "image"
    data: str = field()
    """Base64."""
    mime_type: str = field()
    annotations: Annotations | None = field(default=None)
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model(tag="type", since="2025-03-26")
class AudioContent:
    """Sound."""

    type: ClassVar[Literal["audio"]] = "audio"
    data: str = field()
    """Base64."""
    mime_type: str = field()
    annotations: Annotations | None = field(default=None)
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model(tag="type")
class EmbeddedResource:
    """The contents of a resource."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: ResourceContents = field()
    annotations: Annotations | None = field(default=None)
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model(tag="type", since="2025-06-18")
class ResourceLink:
    """A resource that the client may read. ``resources/list`` need not list it."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    uri: str = field()
    name: str = field()
    title: str | None = field(default=None)
    description: str | None = field(default=None)
    mime_type: str | None = field(default=None)
    annotations: Annotations | None = field(default=None)
    size: int | None = field(default=None)
    """Bytes of the resource before any encoding."""
    icons: tuple[Icon, ...] | None = field(default=None, since="2025-11-25")
    meta: Meta | None = field(default=None, name="_meta")


@model(tag="type", since="2025-11-25")
class ToolUseContent:
    """A tool call of the model, in a sampling message of the assistant."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str = field()
    name: str = field()
    input: dict[str, Any] = field()
    meta: Meta | None = field(default=None, name="_meta")


@model(tag="type", since="2025-11-25")
class ToolResultContent:
    """The result of a tool, in a sampling message of the user."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_use_id: str = field()
    content: tuple[ContentBlock, ...] = field(default=(), always=True)
    structured_content: Any = field(default=ABSENT)
    is_error: bool = field(default=False)
    meta: Meta | None = field(default=None, name="_meta")


@model
class UnknownContent:
    """A block of a type that the revision does not have, kept unchanged so that a reader can show it."""

    type: str = field()
    raw: dict[str, Any] = field()
    """The whole block, including ``type``."""


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
"""The blocks of tool results and prompt messages."""

SamplingContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
)
"""The blocks of sampling messages and their results."""


def joined_text(blocks: Iterable[object]) -> str:
    """Return the texts of the text blocks, joined by newlines; empty if there is none."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextContent))
