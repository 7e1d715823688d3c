"""Records metrics with ``prometheus-client``. ``mcptrio serve --metrics`` serves them.

Source: Prometheus exposition formats; OpenTelemetry specification, "Prometheus and OpenMetrics Compatibility".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from mcptrio.telemetry import names
from mcptrio.telemetry.instruments import INSTRUMENTS, Instrument, Labels, Reading

__all__ = ["PrometheusMetrics"]

_SUFFIXES: Final = {"s": "_seconds", "By": "_bytes"}
_RECORDED: Final = frozenset(
    {names.SERVER_OPERATION, names.SERVER_SESSION, "mcptrio.requests.rejected", "mcptrio.task.duration"}
)
"""Instruments whose values are recorded when they occur. The others are read at each scrape."""


class PrometheusMetrics:
    """See :class:`mcptrio.telemetry.instruments.MetricsBackend`."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._read: Callable[[], Iterable[Reading]] = tuple
        self._histograms: dict[str, Histogram] = {}
        self._counters: dict[str, Counter] = {}
        for each in INSTRUMENTS:
            if each.name not in _RECORDED:
                continue
            name, labels = _prometheus_name(each), _labels(each)
            if each.kind == "histogram":
                self._histograms[each.name] = Histogram(
                    name, each.description, labels, buckets=names.BUCKETS, registry=self._registry
                )
            else:
                self._counters[each.name] = Counter(name, each.description, labels, registry=self._registry)
        self._registry.register(_Readings(self))

    def record(self, instrument: Instrument, value: float, labels: Labels, /) -> None:
        histogram = self._histograms[instrument.name]
        histogram.labels(*[labels.get(name, "") for name in instrument.labels]).observe(value)

    def count(self, instrument: Instrument, labels: Labels, /) -> None:
        self._counters[instrument.name].labels(*[labels.get(name, "") for name in instrument.labels]).inc()

    def observe(self, read: Callable[[], Iterable[Reading]], /) -> None:
        self._read = read

    content_type = CONTENT_TYPE_LATEST

    def text(self) -> bytes:
        """Return the metrics in the text format."""
        return generate_latest(self._registry)

    def families(self) -> Iterator[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for instrument, value, labels in self._read():
            family = families.get(instrument.name)
            if family is None:
                make = CounterMetricFamily if instrument.kind == "counter" else GaugeMetricFamily
                family = make(_prometheus_name(instrument), instrument.description, labels=_labels(instrument))
                families[instrument.name] = family
            family.add_metric([labels.get(name, "") for name in instrument.labels], value)
        yield from families.values()


class _Readings:
    """See prometheus_client's ``Collector``."""

    def __init__(self, metrics: PrometheusMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.families()

    def describe(self) -> Iterable[Metric]:
        # The names of these metrics are known only when they are read.
        return ()


def _prometheus_name(instrument: Instrument) -> str:
    """Return the name without the ``_total`` of a counter."""
    return instrument.name.replace(".", "_") + _SUFFIXES.get(instrument.unit, "")


def _labels(instrument: Instrument) -> list[str]:
    return [name.replace(".", "_") for name in instrument.labels]
