"""The contents of a resource: text, or bytes in Base64.

The result of ``resources/read`` and embedded resources contain them. The member ``text`` or ``blob`` identifies the
kind.

Source: MCP 2026-07-28, server/resources, "Resource Contents".
"""

from __future__ import annotations

from typing import TypeAlias

from mcptrio.protocol.model.fields import Meta, field, model

__all__ = ["BlobResourceContents", "ResourceContents", "TextResourceContents"]


@model
class TextResourceContents:
    """Text of a resource."""

    uri: str = field()
    text: str = field()
    mime_type: str | None = field(default=None)
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model
class BlobResourceContents:
    """Bytes of a resource."""

    uri: str = field()
    blob: str = field()
    """Base64."""
    mime_type: str | None = field(default=None)
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents
"""The contents of a resource."""
