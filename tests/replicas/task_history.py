"""The messages that the clients of a trial of tasks have sent and received: the input of its judge.

Times are seconds of the Trio clock of the trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field, frozen

__all__ = ["TERMINAL", "Death", "TaskAnswer", "TaskCall", "TaskHistory", "TaskRead"]

TERMINAL: Final = ("completed", "failed", "cancelled")


@frozen
class TaskRead:
    """A response to ``tasks/get``."""

    sent: float
    arrived: float
    state: Mapping[str, Any]

    @property
    def is_end(self) -> bool:
        return self.state["status"] in TERMINAL


@define
class TaskAnswer:
    """An answer of a client to a question of a task.

    Attributes:
        text: Unique in the trial.
        acknowledged: When ``tasks/update`` was answered.
    """

    key: str
    text: str
    sent: float
    acknowledged: float | None = None


@define
class TaskCall:
    """A call of a tool that makes tasks.

    Attributes:
        token: Unique in the trial; an argument of the tool.
        id: The id of the task; ``None`` until the client knows it.
        reads: The reads of all its clients, in the order of arrival.
        cancelled: When the first ``tasks/cancel`` was sent.
        refused: Responses that no fault explains.
    """

    tool: str
    token: str
    steps: list[str]
    sent: float
    id: str | None = None
    created: Mapping[str, Any] = field(factory=dict)
    reads: list[TaskRead] = field(factory=list)
    answers: list[TaskAnswer] = field(factory=list)
    cancelled: float | None = None
    refused: list[str] = field(factory=list)

    @property
    def is_resumable(self) -> bool:
        return self.tool.startswith("resumed")

    @property
    def end(self) -> Mapping[str, Any] | None:
        """The first terminal state that a client has read."""
        return next((read.state for read in self.reads if read.is_end), None)

    @property
    def text(self) -> str | None:
        """The text of the successful result, or ``None``."""
        result = (self.end or {}).get("result")
        if result is None or result.get("isError"):
            return None
        text: str = result["content"][0]["text"]
        return text


@frozen
class Death:
    """A signal that has ended or stopped a process."""

    when: float
    process: int
    signal: int


@define
class TaskHistory:
    """Everything that the clients and the replicas of a trial of tasks recorded.

    Attributes:
        has_engine_faults: Whether the engine was damaged too. Then no task has to end within the time of a lease.
        runs: Token and process of each start of a handler.
        effects: Name and nonce of each effect that has happened.
        deaths: The deaths of replicas.
        exits: Replicas that have ended although no fault ended them, with their last words.
        healed: When the last fault was over.
        end: When the trial has ended.
    """

    has_engine_faults: bool = False
    calls: list[TaskCall] = field(factory=list)
    runs: list[tuple[str, int]] = field(factory=list)
    effects: list[tuple[str, str]] = field(factory=list)
    deaths: list[Death] = field(factory=list)
    exits: list[str] = field(factory=list)
    healed: float = 0.0
    end: float = 0.0

    @property
    def tasks(self) -> list[TaskCall]:
        """The calls of which the client knows that they are tasks."""
        return [call for call in self.calls if call.id is not None]
