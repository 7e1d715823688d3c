"""The tasks that servers have made of a host's tool calls, which the host's subscriptions report.

Source: MCP extension io.modelcontextprotocol/tasks, 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from attrs import evolve, frozen

from mcptrio.client.tasks import ClientTask
from mcptrio.host.audit import AuditEntry
from mcptrio.protocol.model.tasks import TaskStatus

__all__ = ["HostTask", "task_reports"]

_FINAL_STATUSES: Final = ("completed", "failed", "cancelled")


@frozen(kw_only=True)
class HostTask:
    """The state of a task that a server has made of a tool call.

    Args:
        id: The id that the server gave to the task.
        tool: The name of the tool in the host.
        status: The last status that the host has received: ``working``, ``input_required``, ``completed``, ``failed``
            or ``cancelled``.
        message: A text of the server about the status.
        has_ended: True if the task has ended, or the host no longer waits for it.
    """

    id: str
    tool: str
    status: TaskStatus
    message: str | None
    has_ended: bool


@contextmanager
def task_reports(
    tool: str, entry: AuditEntry, report: Callable[[HostTask], object]
) -> Iterator[Callable[[ClientTask], None]]:
    """Yield a function that receives the task of a tool call. The states of the task are reported during the block.

    Args:
        entry: The audit record of the call, which gets the id of the task.
        report: Called with each new state.
    """
    latest: HostTask | None = None

    def report_new(task: HostTask) -> None:
        nonlocal latest
        if task != latest:
            latest = task
            report(task)

    def created(task: ClientTask) -> None:
        def report_status(status: TaskStatus, message: str | None) -> None:
            report_new(
                HostTask(id=task.id, tool=tool, status=status, message=message, has_ended=status in _FINAL_STATUSES)
            )

        entry.created(task)
        task._watch(report_status)

    try:
        yield created
    finally:
        # If the task has not ended, the call was cancelled or the connection was lost.
        if latest is not None:
            report_new(evolve(latest, has_ended=True))
