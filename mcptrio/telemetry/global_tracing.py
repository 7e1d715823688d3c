"""Switches tracing on and off for all servers and clients of this process.

Programs call :func:`instrument`. ``mcptrio serve`` calls it if the configuration or the environment asks for telemetry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mcptrio.abc.tracing import TRACING
from mcptrio.errors import ConfigError
from mcptrio.ground.redaction import redact
from mcptrio.telemetry.span_contents import SpanContents

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["instrument", "uninstrument"]


def instrument(
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    content: bool = False,
    details: bool = False,
    redaction: Callable[[str], str] = redact,
) -> None:
    """Make spans of all requests and notifications in this process, until :func:`uninstrument` is called.

    A client that was connected before the call is not traced.

    Args:
        tracer_provider: The provider that gets the spans; by default the global one of OpenTelemetry.
        meter_provider: The provider that gets the metrics of clients; by default the global one.
        content: Record arguments and results of tools, without secrets.
        details: Make spans of store operations too.
        redaction: Removes secrets from each text that is recorded.

    Raises:
        ConfigError: ``opentelemetry-api`` is not installed.
    """
    try:
        from mcptrio.telemetry.otel_metrics import OTelMetrics
        from mcptrio.telemetry.tracer import OTelTracer
    except ModuleNotFoundError as error:
        raise ConfigError(f"telemetry needs opentelemetry-api: pip install 'mcptrio[otel]' ({error})") from error
    contents = SpanContents(content=content, redact=redaction)
    TRACING.tracer = OTelTracer(tracer_provider, OTelMetrics(meter_provider), contents, detailed=details)


def uninstrument() -> None:
    """Stop making spans in this process."""
    TRACING.tracer = None
