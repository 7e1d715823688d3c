"""Tasks: tool calls that outlive their request.

In the extension of 2026-07-28, the server decides whether it answers ``tools/call`` with a task. In 2025-11-25, the
client asks for a task in the call. The client then polls the task, answers its questions or cancels it.

Source: github.com/modelcontextprotocol/ext-tasks, specification, tasks; MCP 2025-11-25, basic/utilities/tasks.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal, TypeAlias

from mcptrio.protocol.model.base import Params, Result
from mcptrio.protocol.model.fields import field, model

__all__ = [
    "RELATED_TASK",
    "TASKS_EXTENSION",
    "CancelTaskParams",
    "CreateTaskResult",
    "GetTaskParams",
    "GetTaskResult",
    "ListTasksParams",
    "ListTasksResult",
    "NestedTaskResult",
    "TaskParams",
    "TaskStatus",
    "UpdateTaskParams",
]

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The identifier of the extension."""
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""The member of ``_meta`` that names the task of a message (2025-11-25)."""

_EXTENSION: Final = "2026-07-28"
_TTL: Final = (_EXTENSION, "ttl")
_POLL_INTERVAL: Final = (_EXTENSION, "pollInterval")

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The status of a task. ``completed``, ``failed`` and ``cancelled`` are final."""


@model
class CreateTaskResult(Result):
    """The answer to ``tools/call`` while the tool still runs."""

    result_type: ClassVar[str] = "task"
    task_id: str = field()
    status: TaskStatus = field()
    status_message: str | None = field(default=None)
    created_at: str = field()
    """ISO 8601."""
    last_updated_at: str = field()
    ttl_ms: int | None = field(default=None, always=True, renamed=_TTL)
    """Milliseconds after its creation for which the server keeps the task at least; ``None`` for no limit."""
    poll_interval_ms: int | None = field(default=None, renamed=_POLL_INTERVAL)


@model
class GetTaskParams(Params):
    """The parameters of ``tasks/get``."""

    task_id: str = field()


@model
class GetTaskResult(Result):
    """A task with its open questions, its result or its error."""

    task_id: str = field()
    status: TaskStatus = field()
    status_message: str | None = field(default=None)
    created_at: str = field()
    last_updated_at: str = field()
    ttl_ms: int | None = field(default=None, always=True, renamed=_TTL)
    poll_interval_ms: int | None = field(default=None, renamed=_POLL_INTERVAL)
    input_requests: dict[str, Any] | None = field(default=None, since=_EXTENSION)
    """Requests in wire form, by keys that are unique within the task."""
    result: dict[str, Any] | None = field(default=None, since=_EXTENSION)
    """The result of the call in wire form, once the status is ``completed``."""
    error: dict[str, Any] | None = field(default=None, since=_EXTENSION)
    """The JSON-RPC error in wire form, once the status is ``failed``."""


@model
class NestedTaskResult(Result):
    """The answer to ``tools/call`` that creates a task, in 2025-11-25."""

    task: GetTaskResult = field()

    @property
    def created(self) -> CreateTaskResult:
        """The answer in the form of the newest revision."""
        task = self.task
        return CreateTaskResult(
            task_id=task.task_id,
            status=task.status,
            status_message=task.status_message,
            created_at=task.created_at,
            last_updated_at=task.last_updated_at,
            ttl_ms=task.ttl_ms,
            poll_interval_ms=task.poll_interval_ms,
            meta=self.meta,
        )


@model
class ListTasksParams(Params):
    """The parameters of ``tasks/list`` (2025-11-25)."""

    cursor: str | None = field(default=None)


@model
class ListTasksResult(Result):
    """One page of the answer to ``tasks/list`` (2025-11-25)."""

    tasks: tuple[GetTaskResult, ...] = field()
    next_cursor: str | None = field(default=None)


@model
class TaskParams(Params):
    """The parameters of ``notifications/tasks`` and ``notifications/tasks/status``: the members of GetTaskResult."""

    task_id: str = field()
    status: TaskStatus = field()
    status_message: str | None = field(default=None)
    created_at: str = field()
    last_updated_at: str = field()
    ttl_ms: int | None = field(default=None, always=True, renamed=_TTL)
    poll_interval_ms: int | None = field(default=None, renamed=_POLL_INTERVAL)
    input_requests: dict[str, Any] | None = field(default=None, since=_EXTENSION)
    result: dict[str, Any] | None = field(default=None, since=_EXTENSION)
    error: dict[str, Any] | None = field(default=None, since=_EXTENSION)


@model
class UpdateTaskParams(Params):
    """The parameters of ``tasks/update``."""

    task_id: str = field()
    input_responses: dict[str, Any] = field()
    """Results in wire form, by the keys of their requests."""


@model
class CancelTaskParams(Params):
    """The parameters of ``tasks/cancel``."""

    task_id: str = field()
