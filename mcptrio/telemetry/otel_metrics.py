"""Records metrics with OpenTelemetry's API. The meter provider of the program or of ``mcptrio serve`` exports them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from mcptrio.ground.version import __version__
from mcptrio.telemetry import names
from mcptrio.telemetry.instruments import INSTRUMENTS, Instrument, Labels, Reading

__all__ = ["OTelMetrics"]


class OTelMetrics:
    """See :class:`mcptrio.telemetry.instruments.MetricsBackend`.

    Args:
        provider: The meter provider; ``None`` for the global one.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        self._meter = get_meter(names.SCOPE, __version__, provider)
        self._read: Callable[[], Iterable[Reading]] = tuple
        self._histograms = {
            each.name: self._meter.create_histogram(
                each.name, each.unit, each.description, explicit_bucket_boundaries_advisory=list(names.BUCKETS)
            )
            for each in INSTRUMENTS
            if each.kind == "histogram"
        }
        self._rejected = self._meter.create_counter("mcptrio.requests.rejected", "{request}")

    def record(self, instrument: Instrument, value: float, labels: Labels, /) -> None:
        self._histograms[instrument.name].record(value, dict(labels))

    def count(self, instrument: Instrument, labels: Labels, /) -> None:
        self._rejected.add(1, dict(labels))

    def observe(self, read: Callable[[], Iterable[Reading]], /) -> None:
        self._read = read
        for each in INSTRUMENTS:
            if each.kind == "gauge":
                self._meter.create_observable_gauge(
                    each.name, [partial(self._observations, each)], each.unit, each.description
                )
            elif each.kind == "counter" and each.name != "mcptrio.requests.rejected":
                self._meter.create_observable_counter(
                    each.name, [partial(self._observations, each)], each.unit, each.description
                )

    def _observations(self, instrument: Instrument, _options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, dict(labels)) for each, value, labels in self._read() if each is instrument]
