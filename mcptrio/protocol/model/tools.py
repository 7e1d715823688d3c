"""Tools: functions that a model can call.

Source: MCP 2026-07-28, server/tools.
"""

from __future__ import annotations

from typing import Any, Literal

from mcptrio.protocol.model.base import CacheableResult, Params, Result
from mcptrio.protocol.model.content import ContentBlock, joined_text
from mcptrio.protocol.model.fields import ABSENT, Meta, field, model
from mcptrio.protocol.model.icons import Icon

__all__ = [
    "CallToolParams",
    "CallToolResult",
    "ListToolsParams",
    "ListToolsResult",
    "TaskMetadata",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
]


@model
class ToolAnnotations:
    """Hints about a tool's behaviour; ``None`` for no hint. A client must not rely on those of an untrusted server."""

    title: str | None = field(default=None)
    read_only_hint: bool | None = field(default=None)
    destructive_hint: bool | None = field(default=None)
    idempotent_hint: bool | None = field(default=None)
    open_world_hint: bool | None = field(default=None)


@model
class ToolExecution:
    """Whether a call may run as a task (2025-11-25)."""

    task_support: Literal["forbidden", "optional", "required"] | None = field(default=None)


@model
class Tool:
    """A tool in a list."""

    name: str = field()
    title: str | None = field(default=None, since="2025-06-18")
    description: str | None = field(default=None)
    input_schema: dict[str, Any] = field()
    """A JSON Schema whose root has ``type: object``."""
    output_schema: dict[str, Any] | None = field(default=None, since="2025-06-18")
    """Any JSON Schema; before 2026-07-28 the root has ``type: object`` on the wire."""
    annotations: ToolAnnotations | None = field(default=None, since="2025-03-26")
    icons: tuple[Icon, ...] | None = field(default=None, since="2025-11-25")
    execution: ToolExecution | None = field(default=None, since="2025-11-25", until="2026-07-28")
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model
class ListToolsParams(Params):
    """The parameters of ``tools/list``."""

    cursor: str | None = field(default=None)


@model
class ListToolsResult(CacheableResult):
    """One page of the answer to ``tools/list``."""

    tools: tuple[Tool, ...] = field()
    next_cursor: str | None = field(default=None)
    """``None`` at the end; the empty string is a valid cursor."""


@model
class TaskMetadata:
    """Asks for a task instead of the result of a call (2025-11-25)."""

    ttl: int | None = field(default=None)
    """Milliseconds for which the client wants the task to be kept. The server may choose another time."""


@model
class CallToolParams(Params):
    """The parameters of ``tools/call``."""

    name: str = field()
    arguments: dict[str, Any] = field(factory=dict)
    """Absent on the wire if empty."""
    task: TaskMetadata | None = field(default=None, since="2025-11-25", until="2026-07-28")
    input_responses: dict[str, Any] | None = field(default=None, since="2026-07-28")
    request_state: str | None = field(default=None, since="2026-07-28")


@model
class CallToolResult(Result):
    """The answer to ``tools/call``."""

    content: tuple[ContentBlock, ...] = field(default=(), always=True)
    structured_content: Any = field(default=ABSENT, since="2025-06-18")
    """Any JSON value, including null. Before 2026-07-28 it is an object on the wire."""
    is_error: bool = field(default=False)

    @property
    def text(self) -> str:
        """The texts of the text blocks, joined by newlines; empty if there is none."""
        return joined_text(self.content)
