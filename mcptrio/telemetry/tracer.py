"""Makes OpenTelemetry spans of requests, notifications and waits, by the conventions for MCP.

:func:`mcptrio.telemetry.instrument` makes the tracer. It uses ``opentelemetry-api`` alone; the provider of the
program exports the spans.

Source: OpenTelemetry semantic conventions for MCP, "Spans"; SEP-414.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind

from mcptrio.abc.tracing import Carrier, Network, StepKind, TracedRequest, TraceOutcome
from mcptrio.ground.version import __version__
from mcptrio.protocol.messages import Notification, Request
from mcptrio.telemetry import names
from mcptrio.telemetry.contexts import carrier_of, context_from, links_to, span_in
from mcptrio.telemetry.instruments import CLIENT_OPERATION, CLIENT_SESSION, MetricsBackend
from mcptrio.telemetry.metrics_observer import LabelBounds
from mcptrio.telemetry.span_contents import SpanContents
from mcptrio.telemetry.spans import AttachedContext, SentSpan, ServedSpan, StepSpan, WorkSpan, error_type

__all__ = ["OTelTracer"]

Attributes = dict[str, str | int | float]

_ARRIVAL: Final = context.create_key("mcptrio-arrival")
"""The key of a pair: the span of the HTTP request that brings messages, and the attributes of its connection."""
_TRACE: Final = context.create_key("mcptrio-trace")
"""The key of the :class:`_JoinedTrace`."""
# The parent of a received message without a trace context. The current span belongs to another message.
_ROOT: Final = Context()
_MAX_NAME: Final = 128
"""Characters of a name that a peer has sent."""
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class _JoinedTrace:
    """A trace that several sent messages share although no span encloses them all."""

    parent: SpanContext | None = None
    """The span of the first message, once it was sent."""


class OTelTracer:
    """See :class:`mcptrio.abc.tracing.Tracer`.

    Args:
        provider: The provider of the program; ``None`` for the global one.
        metrics: Receives the metrics of sent requests and of a client's connections.
        detailed: True if store operations have spans.
    """

    def __init__(
        self, provider: trace.TracerProvider | None, metrics: MetricsBackend, contents: SpanContents, *, detailed: bool
    ) -> None:
        self._metrics = metrics
        self._limit_values = LabelBounds().limit
        self._tracer = trace.get_tracer(names.SCOPE, __version__, provider)
        self._contents = contents
        self.has_details = detailed
        # Most messages have none of these members, and the propagators take 8 µs to find that out.
        self._fields = frozenset(propagate.get_global_textmap().fields)

    # Received messages

    def receiving(self, headers: Mapping[str, str], network: Network) -> AbstractContextManager[None]:
        current = context.get_current()
        if not current and "traceparent" not in headers:
            return AttachedContext(_plain_arrival(network))
        http = span_in(context_from(headers)) if "traceparent" in headers else None
        return AttachedContext(context.set_value(_ARRIVAL, (http, _network_attributes(network)), current))

    def serving(self, served: TracedRequest) -> AbstractContextManager[None]:
        request = served.request
        meta = request.params.get("_meta") if type(request.params) is dict else request.params.meta
        parent, links, attributes = self._parent_of(meta)
        name = _describe(request.method.name, request.params, attributes)
        attributes[names.REVISION] = request.peer.revision.version
        attributes[names.REQUEST_ID] = _truncate(str(request.id))
        session = served.session.stored_id if served.session is not None else None
        if session is not None:
            # On a server without authorization, the id alone would let another client use the session.
            attributes[names.SESSION_ID] = sha256(session.encode()).hexdigest()[:32]
        if self._contents.content and request.method.name == "tools/call":
            attributes[names.TOOL_ARGUMENTS] = self._contents.value(_member(request.params, "arguments"))
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, attributes, links)
        request.trace_id = trace.format_trace_id(span.get_span_context().trace_id)
        return ServedSpan(span, parent, served, self._contents)

    def notified(self, message: Notification) -> AbstractContextManager[None]:
        params = message.params or {}
        meta = params.get("_meta")
        parent, links, attributes = self._parent_of(meta if isinstance(meta, dict) else None)
        name = _describe(_truncate(message.method), params, attributes)
        return WorkSpan(self._tracer.start_span(name, parent, SpanKind.SERVER, attributes, links), parent)

    # Sent messages

    def sending(
        self, message: Request | Notification, *, revision: str | None = None, to: str | None = None
    ) -> AbstractContextManager[TraceOutcome]:
        params = message.params or {}
        meta = params.get("_meta")
        parent = self._parent(meta if isinstance(meta, dict) else None)
        attributes: Attributes = dict(_network_of(to)) if to is not None else {}
        name = _describe(message.method, params, attributes)
        if revision is not None:
            attributes[names.REVISION] = revision
        if isinstance(message, Request):
            attributes[names.REQUEST_ID] = _truncate(str(message.id))
            if self._contents.content and message.method == "tools/call":
                attributes[names.TOOL_ARGUMENTS] = self._contents.value(params.get("arguments"))
        span = self._tracer.start_span(name, parent, SpanKind.CLIENT, attributes)
        within = trace.set_span_in_context(span, parent)
        joined = context.get_value(_TRACE)
        # The messages that follow this first one join its trace.
        if isinstance(joined, _JoinedTrace) and joined.parent is None:
            joined.parent = span.get_span_context()
        # The caller may keep its params, so they are not changed.
        members = {**meta, **carrier_of(within)} if isinstance(meta, dict) else carrier_of(within)
        if members:
            message.params = {**params, "_meta": members}
        measure = partial(self._measure, attributes, trio.current_time())
        return SentSpan(span, within, params.get("arguments"), self._contents, measure)

    def disconnected(self, to: str, seconds: float) -> None:
        transport = str(_network_of(to)[names.TRANSPORT])
        self._metrics.record(CLIENT_SESSION, seconds, {names.TRANSPORT: transport})

    def waiting(self, method: str) -> AbstractContextManager[None]:
        # There is no current span if a client asks its user between two requests.
        parent = self._parent(None)
        return WorkSpan(self._tracer.start_span(method, parent, SpanKind.INTERNAL, {names.METHOD: method}), parent)

    def joining(self) -> AbstractContextManager[None]:
        # Blocks may be nested, for example the round trips of a request in a tool call. The outermost has the trace.
        if isinstance(context.get_value(_TRACE), _JoinedTrace):
            return AttachedContext(context.get_current())
        return AttachedContext(context.set_value(_TRACE, _JoinedTrace()))

    # Work that outlives its request

    def working(self, served: TracedRequest, carrier: Carrier) -> AbstractContextManager[TraceOutcome]:
        parent = context_from(carrier)
        # On a server without authorization, the whole id would give access to the task.
        attributes: Attributes = {names.TASK_ID: str(served.request.id)[:6]}
        name = _describe(served.request.method.name, served.request.params, attributes)
        span = self._tracer.start_span(f"task {name}", parent, SpanKind.INTERNAL, attributes)
        return SentSpan(span, trace.set_span_in_context(span, parent), None, self._contents, served=served)

    def carrier(self) -> dict[str, str]:
        return carrier_of()

    def continues(self, carrier: Carrier) -> None:
        first, span = span_in(context_from(carrier)), trace.get_current_span()
        # Two spans of one trace are already related.
        if first is not None and first.trace_id != span.get_span_context().trace_id:
            span.add_link(first)

    def step(self, kind: StepKind, subject: str, error: BaseException | None) -> AbstractContextManager[None]:
        attributes: Attributes = {names.STORE_OPERATION if kind == "store" else names.PLUGIN: subject}
        if error is not None:
            attributes[names.ERROR_TYPE] = error_type(error)
        return StepSpan(self._tracer.start_span(f"{kind} {subject}", kind=SpanKind.INTERNAL, attributes=attributes))

    # Private

    def _measure(self, attributes: Attributes, began: float, error: str | None) -> None:
        labels = {name: str(attributes[name]) for name in CLIENT_OPERATION.labels if name in attributes}
        if error is not None:
            labels[names.ERROR_TYPE] = error
        # The caller chooses these values, and a backend keeps a series for each value.
        for name in (names.METHOD, names.TOOL_NAME, names.PROMPT_NAME, names.ERROR_TYPE):
            if name in labels:
                labels[name] = self._limit_values(name, labels[name])
        self._metrics.record(CLIENT_OPERATION, trio.current_time() - began, labels)

    def _parent_of(self, meta: Mapping[str, Any] | None) -> tuple[Context, list[trace.Link], Attributes]:
        """Return the parent of a received message, links to the HTTP span and the current span, and attributes."""
        parent = context_from(meta) if meta and not self._fields.isdisjoint(meta) else _ROOT
        current = context.get_current()
        arrival = current.get(_ARRIVAL)
        http, network = arrival if isinstance(arrival, tuple) else (None, {})
        # A context with the arrival alone, which _plain_arrival() makes, has no span. This is the usual case.
        surrounding = span_in(current) if len(current) > 1 or arrival is None else None
        links = links_to(http, surrounding) if http is not None or surrounding is not None else []
        return parent, links, dict(network)

    def _parent(self, meta: Mapping[str, Any] | None) -> Context:
        """Return the parent of a message to send: the current span, the joined trace, or the caller's own context."""
        current = context.get_current()
        if span_in(current) is not None:
            return current
        joined = context.get_value(_TRACE, current)
        if isinstance(joined, _JoinedTrace) and joined.parent is not None:
            return trace.set_span_in_context(trace.NonRecordingSpan(joined.parent), current)
        return context_from(meta) if meta and "traceparent" in meta else current


def _member(params: Any, name: str) -> Any:
    return params.get(name) if isinstance(params, dict) else getattr(params, name, None)


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_NAME else f"{text[:_MAX_NAME]}…"


def _describe(method: str, params: Any, attributes: Attributes) -> str:
    """Add the attributes of a method and its target, and return the name of the span."""
    attributes[names.METHOD] = method
    target = names.PARAMETERS.get(method)
    if target is None:
        return method
    member, attribute = target
    value = _member(params, member)
    if not isinstance(value, str):
        return method
    attributes[attribute] = value = _truncate(value)
    if attribute == names.TOOL_NAME:
        attributes[names.OPERATION_NAME] = names.EXECUTE_TOOL
    # A span name must have few values, and there may be any number of URIs.
    return method if attribute == names.RESOURCE_URI else f"{method} {value}"


def _network_attributes(network: Network) -> Attributes:
    attributes: Attributes = {names.TRANSPORT: network.transport}
    if network.protocol is not None:
        attributes[names.PROTOCOL_NAME] = network.protocol
    # Each attribute takes the SDK 0.7 µs a request, so the version of HTTP and the client's port are left out.
    if network.address is not None:
        attributes[names.CLIENT_ADDRESS] = network.address
    return attributes


@lru_cache(256)
def _plain_arrival(network: Network) -> Context:
    """Return the context of messages that arrive outside any trace. All requests of one client share it."""
    return Context({_ARRIVAL: (None, _network_attributes(network))})


# Called for each message. The process has few links, so few names occur.
@lru_cache(256)
def _network_of(to: str) -> Attributes:
    """Return the attributes of a connection to a server, from the name of its link."""
    parts = urlsplit(to) if "://" in to else None
    if parts is None or parts.hostname is None:
        return {names.TRANSPORT: "pipe"}
    attributes: Attributes = {names.TRANSPORT: "tcp", names.SERVER_ADDRESS: parts.hostname}
    port = parts.port or _PORTS.get(parts.scheme)
    if port is not None:
        attributes[names.SERVER_PORT] = port
    if parts.scheme in _PORTS:
        attributes[names.PROTOCOL_NAME] = "http" if parts.scheme.startswith("http") else "websocket"
    return attributes
