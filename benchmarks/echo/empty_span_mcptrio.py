"""The least that spans can cost: one span of the OpenTelemetry SDK for each request, without attributes or a parent."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind

from mcptrio import PluginSetup, hookimpl, tool
from mcptrio.serving import RefusalReason, RequestEnded, SessionEnded

__all__ = ["setup", "traced"]

_NO_PARENT = Context()


class Dropping(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class EmptySpans:
    def __init__(self) -> None:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(Dropping()))
        self._tracer = provider.get_tracer("benchmark")

    def request_ended(self, _request: RequestEnded, /) -> None:
        self._tracer.start_span("request", _NO_PARENT, SpanKind.SERVER).end()

    def request_refused(self, _method: str, _reason: RefusalReason, /) -> None: ...

    def session_ended(self, _session: SessionEnded, /) -> None: ...


@hookimpl
def setup(server: PluginSetup) -> None:
    server.add_observer(EmptySpans())


@tool
async def traced() -> str:
    """Do nothing; a plugin needs an entry."""
    return "yes"
