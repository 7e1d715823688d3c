"""The data of a task in its record: the call, its questions and answers, and its result or error.

The process that holds the task writes the status, the questions, and the result or error. Any process writes answers
and cancellations.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

import orjson
from attrs import asdict, field, frozen

from mcptrio.abc import TaskRecord
from mcptrio.errors import MCPError
from mcptrio.protocol.model.input_required import InputRequest
from mcptrio.protocol.model.tasks import CreateTaskResult, GetTaskResult, TaskParams, TaskStatus
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS
from mcptrio.protocol.revisions.revision import Revision, TaskCreation

__all__ = ["TaskDocument", "announcement"]

_VERSION: Final = 1
_CANCELLED: Final = "the client has cancelled the task"


@frozen(kw_only=True)
class TaskDocument:
    """The data of a task in its stored record.

    Args:
        request: The stored call: see :func:`mcptrio.tasks.call.load_call`.
        resumable: True if another process may run the handler again from the start.
        has_begun: True if a process may have begun to run the handler.
        call: Identifies the call in the store of side effects.
        ttl: Seconds from the creation to the deadline of the task.
        poll_interval: Seconds between two polls of a client.
        status: The status that the client sees.
        message: A text for users about the status.
        updated: The time of the last change that a client can see, in seconds since 1970.
        questions: Open requests to the client in wire form, by key.
        answers: Responses of the client in wire form, by key; a key is never asked again.
        effects: Results of the side effects that ended before the call became a task.
        is_cancelled: True if the client has cancelled the task.
        result: The result of the call in wire form.
        error: The JSON-RPC error of the call in wire form.
    """

    request: Mapping[str, Any]
    resumable: bool
    has_begun: bool
    call: str
    ttl: float
    poll_interval: float
    status: TaskStatus = "working"
    message: str | None = None
    updated: float = 0.0
    questions: Mapping[str, Any] = field(factory=dict)
    answers: Mapping[str, Any] = field(factory=dict)
    effects: Mapping[str, Any] = field(factory=dict)
    is_cancelled: bool = False
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None

    def encode(self) -> bytes:
        return orjson.dumps({"v": _VERSION, **asdict(self, recurse=False)})

    @classmethod
    def decode(cls, data: bytes) -> TaskDocument:
        """Decode the data of a task from its record.

        Raises:
            ValueError: Another version of mcptrio has written it.
        """
        members = orjson.loads(data)
        version = members.pop("v", None)
        if version != _VERSION:
            raise ValueError(f"task data: expected version {_VERSION}, got {version!r}")
        try:
            return cls(**members)
        except TypeError as error:
            raise ValueError(f"task data: expected the members of version {_VERSION}: {error}") from error

    def create_task_result(self, record: TaskRecord) -> CreateTaskResult:
        """Return the result of a call that has become a task. It has the id of the task."""
        return CreateTaskResult(**self._common_fields(record))

    def get_task_result(self, record: TaskRecord, revision: Revision) -> GetTaskResult:
        """Return the result of ``tasks/get`` for a client of a revision."""
        if self._is_cancelled_for(revision):
            return GetTaskResult(**{**self._common_fields(record), "status": "cancelled", "status_message": _CANCELLED})
        return GetTaskResult(
            **self._common_fields(record),
            input_requests=self.questions_in(revision) if self.status == "input_required" else None,
            result=self._result_in(revision),
            error=dict(self.error) if self.error is not None else None,
        )

    def has_ended_for(self, revision: Revision) -> bool:
        """Return True if clients of a revision see a final status."""
        return self.status in ("completed", "failed", "cancelled") or self._is_cancelled_for(revision)

    def outcome(self, revision: Revision) -> dict[str, Any]:
        """Return the result of an ended call in the wire form of a revision.

        Raises:
            MCPError: The call has failed or was cancelled.
        """
        result = None if self._is_cancelled_for(revision) else self._result_in(revision)
        if result is not None:
            return result
        if self.error is not None and not self._is_cancelled_for(revision):
            raise MCPError(self.error["message"], code=self.error["code"], data=self.error.get("data"))
        raise MCPError(self.message or _CANCELLED)

    @property
    def revision(self) -> Revision:
        """The revision in which the call, its questions, answers and result are stored."""
        return REVISIONS.get(self.request.get("revision", ""), LATEST)

    def questions_in(self, revision: Revision) -> dict[str, Any]:
        """Return the open questions in the wire form of a revision."""
        task_revision = self.revision
        if task_revision is revision:
            return dict(self.questions)
        return {
            key: revision.unstructure(task_revision.structure(wire, InputRequest))
            for key, wire in self.questions.items()
        }

    def _result_in(self, revision: Revision) -> dict[str, Any] | None:
        if self.result is None or self.revision is revision:
            return dict(self.result) if self.result is not None else None
        return revision.unstructure(self.revision.structure(dict(self.result), CallToolResult))

    def _is_cancelled_for(self, revision: Revision) -> bool:
        # In the extension, a task may end in another way after it was cancelled.
        return self.is_cancelled and revision.tasks is TaskCreation.BY_CLIENT

    def _common_fields(self, record: TaskRecord) -> dict[str, Any]:
        return {
            "task_id": record.id,
            "status": self.status,
            "status_message": self.message,
            "created_at": _time(record.created),
            "last_updated_at": _time(max(self.updated, record.created)),
            "ttl_ms": round(self.ttl * 1000),
            "poll_interval_ms": round(self.poll_interval * 1000),
        }


def announcement(state: GetTaskResult, meta: dict[str, Any] | None = None) -> TaskParams:
    """Return the parameters of a notification about a task."""
    # All members of the result except its _meta.
    members: dict[str, Any] = asdict(cast("Any", state), recurse=False)
    return TaskParams(**{**members, "meta": meta})


def _time(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
