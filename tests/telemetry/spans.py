"""The spans of a test, stored in memory and looked up by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcptrio.telemetry import instrument, uninstrument

__all__ = ["Spans", "is_child", "trace_of", "traced"]


class Spans:
    """The spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def named(self, name: str, kind: str | None = None) -> list[Any]:
        spans = self._exporter.get_finished_spans()
        return [span for span in spans if span.name == name and kind in (None, span.kind.name)]

    def one(self, name: str, kind: str | None = None) -> Any:
        found = self.named(name, kind)
        assert len(found) == 1, sorted((span.name, span.kind.name) for span in self._exporter.get_finished_spans())
        return found[0]

    @staticmethod
    def current() -> Any:
        """The tracer of the running test, for its tools."""
        return _current[-1].tracer

    def clear(self) -> None:
        self._exporter.clear()


_current: list[Spans] = []


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    """Whether a span is a direct child of another."""
    assert parent.context is not None
    return child.parent is not None and child.parent.span_id == parent.context.span_id


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


@contextmanager
def traced(**options: Any) -> Iterator[Spans]:
    """Trace what runs inside."""
    spans = Spans()
    _current.append(spans)
    instrument(spans.provider, **options)
    try:
        yield spans
    finally:
        uninstrument()
        _current.remove(spans)
        spans.provider.shutdown()
