"""The base classes of parameters and results, with the fields that all of them have.

Source: MCP 2026-07-28, schema.ts, "RequestParams", "NotificationParams", "Result", "CacheableResult".
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from mcptrio.protocol.model.fields import Meta, field, model

__all__ = ["CacheScope", "CacheableResult", "EmptyParams", "EmptyResult", "Params", "Result", "Role"]

CacheScope: TypeAlias = Literal["public", "private"]
"""``public`` if a cached result may be used for all callers, ``private`` if only for one."""
Role: TypeAlias = Literal["user", "assistant"]
"""The sender of a message in a conversation."""


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
    """The kind of the result; if it is absent, ``complete`` is meant. ``None`` for results without this member, which
    answer a question of the server."""
    meta: Meta | None = field(default=None, name="_meta")


@model
class EmptyResult(Result):
    """A result without content."""


@model
class CacheableResult(Result):
    """A result that may be cached."""

    ttl_ms: int = field(default=0, since="2026-07-28", always=True)
    """Milliseconds for which the result is fresh; 0 if it must not be reused."""
    cache_scope: CacheScope = field(default="private", since="2026-07-28", always=True)
    """``private`` if the result must not be reused in another authorization context."""
