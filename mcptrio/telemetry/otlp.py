"""Exports spans and metrics over OTLP/HTTP while a server is served, if telemetry is configured.

The standard variables ``OTEL_*`` apply, because the exporters read them. If the process already has a tracer provider,
for example from ``opentelemetry-instrument``, that provider gets the spans.

Source: OpenTelemetry specification, "OTLP Exporter Configuration" and "Environment Variable Specification".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from mcptrio.errors import ConfigError
from mcptrio.ground.version import __version__
from mcptrio.telemetry.global_tracing import instrument, uninstrument
from mcptrio.telemetry.settings import TelemetryTable

if TYPE_CHECKING:
    from opentelemetry import metrics
    from opentelemetry.sdk.resources import Resource

__all__ = ["exporting"]

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
_HTTP: Final = "http/protobuf"
_ABORT_SECONDS: Final = 1.0
"""Seconds to wait for the threads after the exporters were shut down."""


@contextmanager
def exporting(
    table: TelemetryTable, environ: Mapping[str, str], *, name: str, timeout: float
) -> Iterator[metrics.MeterProvider]:
    """Make and export spans during the block. Yields the provider for metrics.

    Args:
        name: The name of the service, unless the environment names it.
        timeout: Seconds for the last export at the end.

    Raises:
        ConfigError: The SDK or the exporter is not installed, or the environment asks for another protocol.
    """
    for variable in _PROTOCOLS:
        if environ.get(variable, _HTTP) != _HTTP:
            raise ConfigError(f"{variable}: expected {_HTTP}, got {environ[variable]!r}")
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise ConfigError(f"telemetry needs an exporter: pip install 'mcptrio[otlp]' ({error})") from error
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        instrument(content=table.content, details=table.details)
        try:
            yield metrics.get_meter_provider()
        finally:
            uninstrument()
        return
    span_exporter = OTLPSpanExporter(**_endpoint(table, "traces"))
    resource = _resource(name, environ)
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(span_exporter))
    metric_exporter = OTLPMetricExporter(**_endpoint(table, "metrics"))
    meters = MeterProvider([PeriodicExportingMetricReader(metric_exporter)], resource, shutdown_on_exit=False)
    instrument(provider, meters, content=table.content, details=table.details)
    try:
        yield meters
    finally:
        uninstrument()
        # In threads, because the last exports may wait for a collector that does not answer.
        shutdowns = [Thread(target=each.shutdown, name="mcptrio telemetry", daemon=True) for each in (provider, meters)]
        for thread in shutdowns:
            thread.start()
        deadline = monotonic() + timeout
        for thread in shutdowns:
            thread.join(max(0.0, deadline - monotonic()))
        if any(thread.is_alive() for thread in shutdowns):
            span_exporter.shutdown()  # type: ignore[no-untyped-call]
            metric_exporter.shutdown()
            for thread in shutdowns:
                thread.join(_ABORT_SECONDS)


def _endpoint(table: TelemetryTable, signal: str) -> dict[str, Any]:
    return {} if table.endpoint is None else {"endpoint": f"{table.endpoint.rstrip('/')}/v1/{signal}"}


def _resource(name: str, environ: Mapping[str, str]) -> Resource:
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource

    is_named = "OTEL_SERVICE_NAME" in environ or SERVICE_NAME in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    attributes = {} if is_named else {SERVICE_NAME: name, SERVICE_VERSION: __version__}
    return Resource.create(attributes)
