"""The base classes: params of requests, params of notifications, and results.

All other modules of this package derive from them. They contain only the fields that the schema gives to every member.

Source: MCP 2026-07-28, schema.ts, "RequestParams", "NotificationParams", "Result", "CacheableResult".
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from mcptrio.protocol.model.fields import Meta, field, model

__all__ = ["CacheScope", "CacheableResult", "EmptyParams", "EmptyResult", "Params", "Result", "Role"]

CacheScope: TypeAlias = Literal["public", "private"]
"""Whether a result may be kept for all callers or for one."""
Role: TypeAlias = Literal["user", "assistant"]
"""The side of a conversation that a message comes from."""


@model
class Params:
    """The parameters of a request or a notification."""

    meta: Meta | None = field(default=None, name="_meta")


@model
class EmptyParams(Params):
    """No parameters but ``_meta``."""


@model(tag="result_type", tag_since="2026-07-28")
class Result:
    """The answer to a request."""

    result_type: ClassVar[str | None] = "complete"
    """The kind of the response; absent means ``complete``. None: this result has no such member (input responses)."""
    meta: Meta | None = field(default=None, name="_meta")


@model
class EmptyResult(Result):
    """Done; there is nothing to say."""


@model
class CacheableResult(Result):
    """An answer that may be kept for a while."""

    ttl_ms: int = field(default=0, since="2026-07-28", always=True)
    """Milliseconds for which the answer is fresh; 0 means it is stale at once."""
    cache_scope: CacheScope = field(default="private", since="2026-07-28", always=True)
    """``private``: never hand it to another authorization context."""
