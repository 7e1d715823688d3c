"""Figures of the requests: one sample for every five seconds of the last 15 minutes, and totals for each tool.

The console adds :class:`Samples` to the server as an observer. Its size does not depend on the number of requests.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import trio
from attrs import define, field

from mcptrio.serving import RefusalReason, RequestEnded, SessionEnded, TaskEnded

from .histogram import Histogram

__all__ = ["SAMPLES", "SAMPLE_SECONDS", "LabelFigures", "Samples", "TrafficSample"]

SAMPLE_SECONDS: Final = 5.0
SAMPLES: Final = 180
_MAX_LABELS: Final = 500
"""Tools, prompts and methods that are counted. Clients may send any number of unknown names, so further ones share a
row."""
_OTHERS: Final = "(others)"
_MAX_FAILURES: Final = 100
_MAX_TASKS: Final = 50
_FAILED: Final = ("tool_error", "error", "timeout")
_LISTENING: Final = "subscriptions/listen"
"""The method of event streams, which last as long as the client listens, so their durations are not counted."""


@define(eq=False)
class TrafficSample:
    """The traffic of five seconds.

    Args:
        number: The seconds of Trio's clock, divided by five.
        lag: The longest delay of the event loop in seconds; ``None`` if no page was open.
        sessions: The number of open sessions; ``None`` if no page was open.
    """

    number: int
    requests: int = 0
    failures: int = 0
    refusals: int = 0
    latencies: Histogram = field(factory=Histogram)
    lag: float | None = None
    sessions: int | None = None


@define(eq=False)
class LabelFigures:
    """Figures of a tool, a prompt, a resource or a method since the console was opened."""

    method: str
    plugin: str | None
    calls: int = 0
    failures: int = 0
    slowest: float = 0.0
    latencies: Histogram = field(factory=Histogram)


class Samples:
    """An observer of a server.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._samples: deque[TrafficSample] = deque(maxlen=SAMPLES)
        self.labels: dict[tuple[str, str], LabelFigures] = {}
        """The figures of requests, by method and label."""
        self.failures: deque[tuple[float, RequestEnded]] = deque(maxlen=_MAX_FAILURES)
        """The last requests that have failed, with the time."""
        self.refusals: Counter[RefusalReason] = Counter()
        self.tasks: deque[tuple[float, TaskEnded]] = deque(maxlen=_MAX_TASKS)
        """The last tasks that have ended, with the time."""
        self.task_count = 0
        self.failed_task_count = 0

    # Observer

    def request_ended(self, request: RequestEnded, /) -> None:
        sample = self.current
        sample.requests += 1
        figures = self._figures(request)
        figures.calls += 1
        if request.method != _LISTENING:
            # The time in which a user answers a question is not counted.
            seconds = request.seconds - request.waited
            sample.latencies.add(seconds)
            figures.latencies.add(seconds)
            figures.slowest = max(figures.slowest, seconds)
        if request.outcome in _FAILED:
            sample.failures += 1
            figures.failures += 1
            self.failures.append((self._clock(), request))

    def request_refused(self, _method: str, reason: RefusalReason, /) -> None:
        self.current.refusals += 1
        self.refusals[reason] += 1

    def session_ended(self, session: SessionEnded, /) -> None: ...

    def task_ended(self, task: TaskEnded, /) -> None:
        self.task_count += 1
        self.failed_task_count += task.outcome in _FAILED
        self.tasks.append((self._clock(), task))

    # Reading

    @property
    def current(self) -> TrafficSample:
        number = int(self._clock() / SAMPLE_SECONDS)
        if not self._samples or self._samples[-1].number != number:
            self._samples.append(TrafficSample(number))
        return self._samples[-1]

    def last(self, count: int = SAMPLES) -> Sequence[TrafficSample | None]:
        """Return the last samples, the newest last; ``None`` for five seconds without traffic."""
        now = int(self._clock() / SAMPLE_SECONDS)
        by_number = {sample.number: sample for sample in self._samples}
        return [by_number.get(number) for number in range(now - count + 1, now + 1)]

    def recent(self, seconds: float) -> Iterator[TrafficSample]:
        """Yield the samples of the last seconds."""
        yield from (sample for sample in self.last(int(seconds / SAMPLE_SECONDS)) if sample is not None)

    def _figures(self, request: RequestEnded) -> LabelFigures:
        key = (request.method, request.label)
        figures = self.labels.get(key)
        if figures is None:
            if len(self.labels) >= _MAX_LABELS:
                key = (_OTHERS, _OTHERS)
            plugin = request.plugin if key[0] != _OTHERS else None
            figures = self.labels.setdefault(key, LabelFigures(key[0], plugin))
        return figures
