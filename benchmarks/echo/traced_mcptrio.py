"""Traces the process of a benchmark: every span is exported in the process, at once, and dropped."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from mcptrio import tool
from mcptrio.telemetry import instrument

__all__ = ["traced"]


class Dropping(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Dropping()))
instrument(provider)


@tool
async def traced() -> str:
    """Do nothing; a plugin needs an entry."""
    return "yes"
