"""The base classes: params of requests, params of notifications, and results.

All other modules of this package derive from them. They contain only the fields that the schema gives to every member.

Source: MCP 2026-07-28, schema.ts, "RequestParams", "NotificationParams", "Result", "CacheableResult".
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from mcptrio.protocol.model.fields import Meta, field, model

__all__ = ["CacheScope", "CacheableResult", "EmptyParams", "EmptyResult", "Params", "Result", "Role"]

CacheScope: TypeAlias = Literal["public", "private"]
"""Whether a cached result may be used for all callers or for one."""
Role: TypeAlias = Literal["user", "assistant"]
"""The side of a conversation that a message comes from."""


@model
class Params:
    """The parameters of a request or a notification."""

    meta: Meta | None = field(default=None, name="_meta")


@model
class EmptyParams(Params):
    """Parameters with nothing but ``_meta``."""


@model(tag="result_type", tag_since="2026-07-28")
class Result:
    """The answer to a request."""

    result_type: ClassVar[str | None] = "complete"
    """The kind of the response; absent means ``complete``. None: this result has no such member (input responses)."""
    meta: Meta | None = field(default=None, name="_meta")


@model
class EmptyResult(Result):
    """A result without content."""


@model
class CacheableResult(Result):
    """A result that may be cached."""

    ttl_ms: int = field(default=0, since="2026-07-28", always=True)
    """Milliseconds for which the result is fresh; 0: stale at once."""
    cache_scope: CacheScope = field(default="private", since="2026-07-28", always=True)
    """``private``: not to be used in another authorization context."""
