"""Resources: data that an application can read.

Source: MCP 2026-07-28, server/resources; MCP 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

from typing import Any

from mcptrio.protocol.model.base import CacheableResult, Params
from mcptrio.protocol.model.content import Annotations
from mcptrio.protocol.model.fields import Meta, field, model
from mcptrio.protocol.model.icons import Icon
from mcptrio.protocol.model.resource_contents import ResourceContents, TextResourceContents

__all__ = [
    "ListResourceTemplatesParams",
    "ListResourceTemplatesResult",
    "ListResourcesParams",
    "ListResourcesResult",
    "ReadResourceParams",
    "ReadResourceResult",
    "Resource",
    "ResourceTemplate",
    "ResourceUpdatedParams",
    "SubscribeParams",
    "UnsubscribeParams",
]


@model
class Resource:
    """A resource in a list."""

    uri: str = field()
    name: str = field()
    title: str | None = field(default=None, since="2025-06-18")
    description: str | None = field(default=None)
    mime_type: str | None = field(default=None)
    annotations: Annotations | None = field(default=None)
    size: int | None = field(default=None)
    """Bytes of the resource before any encoding."""
    icons: tuple[Icon, ...] | None = field(default=None, since="2025-11-25")
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model
class ResourceTemplate:
    """A family of resources, by URI template (RFC 6570)."""

    uri_template: str = field()
    name: str = field()
    title: str | None = field(default=None, since="2025-06-18")
    description: str | None = field(default=None)
    mime_type: str | None = field(default=None)
    """Present only if all resources of the family have the same type."""
    annotations: Annotations | None = field(default=None)
    icons: tuple[Icon, ...] | None = field(default=None, since="2025-11-25")
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model
class ListResourcesParams(Params):
    """The parameters of ``resources/list``."""

    cursor: str | None = field(default=None)


@model
class ListResourcesResult(CacheableResult):
    """One page of the answer to ``resources/list``."""

    resources: tuple[Resource, ...] = field()
    next_cursor: str | None = field(default=None)
    """``None`` at the end; the empty string is a valid cursor."""


@model
class ListResourceTemplatesParams(Params):
    """The parameters of ``resources/templates/list``."""

    cursor: str | None = field(default=None)


@model
class ListResourceTemplatesResult(CacheableResult):
    """One page of the answer to ``resources/templates/list``."""

    resource_templates: tuple[ResourceTemplate, ...] = field()
    next_cursor: str | None = field(default=None)
    """``None`` at the end; the empty string is a valid cursor."""


@model
class ReadResourceParams(Params):
    """The parameters of ``resources/read``."""

    uri: str = field()
    input_responses: dict[str, Any] | None = field(default=None, since="2026-07-28")
    request_state: str | None = field(default=None, since="2026-07-28")


@model
class ReadResourceResult(CacheableResult):
    """The answer to ``resources/read``; with several contents if the resource is a collection."""

    contents: tuple[ResourceContents, ...] = field()

    @property
    def text(self) -> str:
        """The texts of the contents that are text, joined by newlines; empty if there is none."""
        return "\n".join(each.text for each in self.contents if isinstance(each, TextResourceContents))


@model
class SubscribeParams(Params):
    """The parameters of ``resources/subscribe`` (handshake revisions)."""

    uri: str = field()


@model
class UnsubscribeParams(Params):
    """The parameters of ``resources/unsubscribe`` (handshake revisions)."""

    uri: str = field()


@model
class ResourceUpdatedParams(Params):
    """The parameters of ``notifications/resources/updated``. The URI may be below the one of the subscription."""

    uri: str = field()
