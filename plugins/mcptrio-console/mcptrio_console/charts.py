"""Small charts as SVG paths, which show the values of 15 minutes from left to right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from attrs import frozen

from .histogram import Histogram
from .samples import SAMPLE_SECONDS, SAMPLES, Samples, TrafficSample
from .text import milliseconds

__all__ = ["HEIGHT", "WIDTH", "Chart", "make_charts"]

WIDTH: Final = SAMPLES
HEIGHT: Final = 48
_PAD: Final = 2.0
"""Space above the highest value, so that the line is not cut in half."""

Value = Callable[[TrafficSample | None], float | None]


@frozen(kw_only=True)
class Chart:
    """One chart.

    Args:
        now: The newest value, as text.
        top: The highest value, as text.
        paths: The class and the data of each SVG path: the lines, and the area below a single line.
        description: The chart in words, for screen readers.
    """

    title: str
    now: str
    top: str
    paths: tuple[tuple[str, str], ...]
    description: str


def make_charts(samples: Samples, *, sessions: int) -> list[Chart]:
    """Return the charts of the page "Now".

    Args:
        sessions: The number of open sessions.
    """
    last = samples.last()
    minute = TrafficFigures.of(samples, 60)
    p50, p99 = minute.p50, minute.p99
    return [
        _chart("Requests a second", last, (_rate,), f"{minute.requests / 60:.1f}", _plain),
        _chart(
            "Latency, p50 and p99",
            last,
            (lambda sample: _percentile(sample, 0.5), lambda sample: _percentile(sample, 0.99)),
            "none in a minute" if p50 is None or p99 is None else f"{milliseconds(p50)} and {milliseconds(p99)}",
            milliseconds,
        ),
        _chart("Failed requests", last, (_failures,), f"{minute.failures} in a minute", _count),
        _chart("Sessions", last, (lambda sample: _optional(sample, "sessions"),), str(sessions), _count),
        _chart("Delay of the event loop", last, (lambda sample: _optional(sample, "lag"),), _lag(last), milliseconds),
    ]


@frozen
class TrafficFigures:
    """The figures of the traffic in the last seconds."""

    requests: int
    failures: int
    refusals: int
    p50: float | None
    p99: float | None

    @classmethod
    def of(cls, samples: Samples, seconds: float) -> TrafficFigures:
        recent_samples = list(samples.recent(seconds))
        latencies = Histogram()
        for each in recent_samples:
            latencies.merge(each.latencies)
        return cls(
            sum(each.requests for each in recent_samples),
            sum(each.failures for each in recent_samples),
            sum(each.refusals for each in recent_samples),
            latencies.percentile(0.5),
            latencies.percentile(0.99),
        )


def _chart(
    title: str, last: Sequence[TrafficSample | None], values: Sequence[Value], now: str, text: Callable[[float], str]
) -> Chart:
    lines = [[value(sample) for sample in last] for value in values]
    highest = max((value for line in lines for value in line if value is not None), default=0.0)
    scale = (HEIGHT - _PAD) / highest if highest else 0.0
    paths = []
    for number, line in enumerate(lines):
        drawn = _path(line, scale)
        if len(lines) == 1:
            paths.append(("area", _area(line, scale)))
        paths.append((f"line{number}", drawn))
    top = text(highest) if highest else "0"
    return Chart(
        title=title,
        now=now,
        top=top,
        paths=tuple(paths),
        description=f"{title}, now {now}, at most {top} in 15 minutes",
    )


def _segments(line: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Split a line at missing values."""
    runs: list[list[tuple[int, float]]] = [[]]
    for position, value in enumerate(line):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((position, value))
    return [run for run in runs if run]


def _path(line: Sequence[float | None], scale: float) -> str:
    return " ".join(_points(run, scale) for run in _segments(line))


def _area(line: Sequence[float | None], scale: float) -> str:
    return " ".join(f"{_points(run, scale)} V{HEIGHT} H{run[0][0]} Z" for run in _segments(line))


def _points(run: Sequence[tuple[int, float]], scale: float) -> str:
    # A single value is drawn as a line of one unit, because a point has no length.
    points = [*run, (run[-1][0] + 1, run[-1][1])]
    return "M" + " L".join(f"{position} {HEIGHT - value * scale:.1f}" for position, value in points)


def _rate(sample: TrafficSample | None) -> float:
    return 0.0 if sample is None else sample.requests / SAMPLE_SECONDS


def _failures(sample: TrafficSample | None) -> float:
    return 0.0 if sample is None else float(sample.failures)


def _percentile(sample: TrafficSample | None, share: float) -> float | None:
    return None if sample is None else sample.latencies.percentile(share)


def _optional(sample: TrafficSample | None, name: str) -> float | None:
    value = None if sample is None else getattr(sample, name)
    return None if value is None else float(value)


def _lag(last: Sequence[TrafficSample | None]) -> str:
    lags = [sample.lag for sample in last[-2:] if sample is not None and sample.lag is not None]
    return milliseconds(lags[-1]) if lags else "measured from now on"


def _plain(value: float) -> str:
    return f"{value:.1f}"


def _count(value: float) -> str:
    return f"{value:.0f}"
