"""Trace contexts in ``params._meta`` and in HTTP headers. The tracer uses it.

Source: SEP-414; W3C Trace Context; W3C Baggage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Link, SpanContext

__all__ = ["carrier_of", "extracted", "link_to", "span_in"]

_MAX_CHARS: Final = 8192
"""Characters of one member; longer ones are ignored. W3C Baggage guarantees no more."""
_ROOT: Final = Context()


class _MetaGetter(Getter[Mapping[str, Any]]):
    """Reads members that a peer has sent, which need not be text."""

    def get(self, carrier: Mapping[str, Any], key: str) -> list[str] | None:
        value = carrier.get(key)
        return [value] if isinstance(value, str) and len(value) <= _MAX_CHARS else None

    def keys(self, carrier: Mapping[str, Any]) -> list[str]:
        return [key for key in carrier if isinstance(key, str)]


_GETTER: Final = _MetaGetter()


def extracted(carrier: Mapping[str, Any] | None) -> Context:
    """Return the context that a peer has sent; an empty one without a trace."""
    return propagate.extract(carrier, _ROOT, _GETTER) if carrier else _ROOT


def carrier_of(within: Context | None = None) -> dict[str, str]:
    """Return the members for a peer, from a context or the current one."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, within if within is not None else context.get_current())
    return carrier


def span_in(within: Context) -> SpanContext | None:
    """Return the span of a context, if it has a valid one."""
    found = trace.get_current_span(within).get_span_context()
    return found if found.is_valid else None


def link_to(found: SpanContext | None, *others: SpanContext | None) -> list[Link]:
    """Return links to spans, each once, leaving out those that do not exist."""
    links = {each.span_id: Link(each) for each in (found, *others) if each is not None}
    return list(links.values())
