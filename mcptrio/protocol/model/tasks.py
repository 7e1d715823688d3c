"""Tasks: tool calls that outlive their request (extension io.modelcontextprotocol/tasks, 2026-07-28).

The server decides whether it answers ``tools/call`` with a task. The client then polls, answers questions or cancels.

Source: github.com/modelcontextprotocol/ext-tasks, specification, tasks.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal, TypeAlias

from mcptrio.protocol.model.base import Params, Result
from mcptrio.protocol.model.fields import field, model

__all__ = [
    "TASKS_EXTENSION",
    "CancelTaskParams",
    "CreateTaskResult",
    "GetTaskParams",
    "GetTaskResult",
    "TaskParams",
    "TaskStatus",
    "UpdateTaskParams",
]

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The identifier of the extension."""

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The last three are final."""


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
    ttl_ms: int | None = field(default=None, always=True)
    """Milliseconds after the creation for which the task is kept at least; ``None``: without limit."""
    poll_interval_ms: int | None = field(default=None)


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
    ttl_ms: int | None = field(default=None, always=True)
    poll_interval_ms: int | None = field(default=None)
    input_requests: dict[str, Any] | None = field(default=None)
    """Requests in wire form, by keys that are unique within the task."""
    result: dict[str, Any] | None = field(default=None)
    """The result of the call in wire form, once the status is ``completed``."""
    error: dict[str, Any] | None = field(default=None)
    """The JSON-RPC error in wire form, once the status is ``failed``."""


@model
class TaskParams(Params):
    """The parameters of ``notifications/tasks``: what ``tasks/get`` would return."""

    task_id: str = field()
    status: TaskStatus = field()
    status_message: str | None = field(default=None)
    created_at: str = field()
    last_updated_at: str = field()
    ttl_ms: int | None = field(default=None, always=True)
    poll_interval_ms: int | None = field(default=None)
    input_requests: dict[str, Any] | None = field(default=None)
    result: dict[str, Any] | None = field(default=None)
    error: dict[str, Any] | None = field(default=None)


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
