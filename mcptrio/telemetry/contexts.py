"""Reads and writes trace contexts in ``params._meta`` and HTTP headers, for the tracer.

Source: SEP-414; W3C Trace Context; W3C Baggage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Link, SpanContext

__all__ = ["carrier_of", "context_from", "links_to", "span_in"]

_MAX_CHARS: Final = 8192
"""Characters of one member; longer members are ignored. W3C Baggage guarantees no more than this."""
_ROOT: Final = Context()


class _MetaGetter(Getter[Mapping[str, Any]]):
    """Reads members that a peer has sent. Their values may have any JSON type."""

    def get(self, carrier: Mapping[str, Any], key: str) -> list[str] | None:
        value = carrier.get(key)
        return [value] if isinstance(value, str) and len(value) <= _MAX_CHARS else None

    def keys(self, carrier: Mapping[str, Any]) -> list[str]:
        return [key for key in carrier if isinstance(key, str)]


_GETTER: Final = _MetaGetter()


def context_from(carrier: Mapping[str, Any] | None) -> Context:
    """Return the trace context that a peer has sent; an empty context if there is none."""
    return propagate.extract(carrier, _ROOT, _GETTER) if carrier else _ROOT


def carrier_of(within: Context | None = None) -> dict[str, str]:
    """Return the members that carry a context, by default the current one, to a peer."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, within if within is not None else context.get_current())
    return carrier


def span_in(within: Context) -> SpanContext | None:
    """Return the span of a context; ``None`` if it has no valid span."""
    context = trace.get_current_span(within).get_span_context()
    return context if context.is_valid else None


def links_to(*spans: SpanContext | None) -> list[Link]:
    """Return one link to each span; ``None`` is left out."""
    links = {each.span_id: Link(each) for each in spans if each is not None}
    return list(links.values())
