"""Records metrics of the requests, sessions and tasks of a server. ``mcptrio serve`` adds it to the observers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mcptrio.abc.observers import RefusalReason, RequestEnded, SessionEnded, TaskEnded
from mcptrio.telemetry import names
from mcptrio.telemetry.instruments import (
    REJECTED,
    SERVER_OPERATION,
    SERVER_SESSION,
    TASK_DURATION,
    MetricsBackend,
    Reading,
)

__all__ = ["MAX_VALUES", "LabelBounds", "MetricsObserver"]

MAX_VALUES: Final = 200
"""Values of one label; all further values are recorded as ``other``. Plugins may add any number of tools."""
_PIPES: Final = frozenset({"stdio", "memory"})
_TARGETS: Final = {"tools/call": names.TOOL_NAME, "prompts/get": names.PROMPT_NAME}


class LabelBounds:
    """Bounds the number of values of each label."""

    def __init__(self) -> None:
        self._values: dict[str, set[str]] = {}

    def limit(self, label: str, value: str) -> str:
        """Return the value, or ``other`` if the label has too many values."""
        known = self._values.setdefault(label, set())
        if value not in known:
            if len(known) >= MAX_VALUES:
                return names.OTHER
            known.add(value)
        return value


class MetricsObserver:
    """Passes the measurements of a server to the backends. See :class:`mcptrio.abc.observers.Observer`."""

    def __init__(self, backends: Sequence[MetricsBackend]) -> None:
        self._backends = backends
        self._limit_values = LabelBounds().limit

    def observe(self, read: Callable[[], Iterable[Reading]]) -> None:
        """Have each backend read the gauges with this function."""
        for backend in self._backends:
            backend.observe(read)

    def request_ended(self, request: RequestEnded, /) -> None:
        labels = {
            names.METHOD: self._limit_values(names.METHOD, request.method),
            names.REVISION: request.revision,
            names.TRANSPORT: _transport_of(request.channel),
        }
        target = _TARGETS.get(request.method)
        # If no function has run, the label is the method. The name that the client has sent may then be any text.
        if target is not None and request.label != request.method:
            labels[target] = self._limit_values(target, request.label)
        if request.outcome == "error":
            labels[names.ERROR_TYPE] = self._limit_values(names.ERROR_TYPE, str(request.code))
        elif request.outcome not in ("result", "question"):
            labels[names.ERROR_TYPE] = request.outcome
        for backend in self._backends:
            backend.record(SERVER_OPERATION, request.seconds, labels)

    def request_refused(self, method: str, reason: RefusalReason, /) -> None:
        for backend in self._backends:
            backend.count(REJECTED, {names.REASON: reason})

    def session_ended(self, session: SessionEnded, /) -> None:
        labels = {names.TRANSPORT: _transport_of(session.channel)}
        for backend in self._backends:
            backend.record(SERVER_SESSION, session.seconds, labels)

    def task_ended(self, task: TaskEnded, /) -> None:
        labels = {names.TOOL_NAME: self._limit_values(names.TOOL_NAME, task.label)}
        if task.outcome == "error":
            labels[names.ERROR_TYPE] = self._limit_values(names.ERROR_TYPE, str(task.code))
        elif task.outcome != "result":
            labels[names.ERROR_TYPE] = task.outcome
        for backend in self._backends:
            backend.record(TASK_DURATION, task.seconds, labels)


def _transport_of(channel: str) -> str:
    return "pipe" if channel in _PIPES else "tcp"
