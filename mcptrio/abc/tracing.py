"""Interface of a tracer, which follows the messages that a server and a client exchange.

The runtime and the client call the tracer in :data:`TRACING`, if there is one. :mod:`mcptrio.telemetry` implements it.

Source: OpenTelemetry semantic conventions for MCP; SEP-414.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol, TypeAlias

from attrs import define, frozen

from mcptrio.errors import MCPError
from mcptrio.protocol.events import RequestReceived
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, Response

__all__ = [
    "TRACING",
    "AnsweredRequest",
    "Carrier",
    "Network",
    "StepKind",
    "TraceOutcome",
    "TracedRequest",
    "Tracer",
    "share_trace",
    "trace_answer",
    "trace_carrier",
    "trace_channel",
    "trace_notification",
    "trace_received",
    "trace_sending",
    "trace_step",
    "trace_wait",
    "trace_work",
]

StepKind: TypeAlias = Literal["start plugin", "stop plugin", "restart task", "store"]
Carrier = Mapping[str, Any]
"""A trace context as text: ``traceparent``, ``tracestate`` and ``baggage``."""


class TracedSession(Protocol):
    """The session of a request."""

    @property
    def stored_id(self) -> str | None:
        """The id of a session over HTTP; ``None`` for a pipe, and for a request without a session."""
        ...


class TracedRequest(Protocol):
    """A request in progress. The tracer reads it at its beginning and at its end."""

    request: RequestReceived
    reply: Response | ErrorResponse | None
    """The response, once there is one."""
    reason: str | None
    """The reason why no response is sent."""
    error: MCPError | None
    """The error with which this side ends the request."""

    @property
    def session(self) -> TracedSession | None: ...


@define(eq=False)
class AnsweredRequest:
    """A request from a server to a client. See :class:`TracedRequest`."""

    request: RequestReceived
    reply: Response | ErrorResponse | None = None
    reason: str | None = None
    error: MCPError | None = None
    session: TracedSession | None = None


@define
class TraceOutcome:
    """The outcome of a traced operation. The traced code sets it.

    Args:
        reply: The response to a request.
        error: The error of the operation, if the code does not raise it.
        is_tool_error: True if a tool reported an error.
    """

    reply: Response | ErrorResponse | None = None
    error: BaseException | None = None
    is_tool_error: bool = False


@frozen(cache_hash=True)
class Network:
    """The transport over which messages arrive.

    Args:
        transport: ``tcp``, ``unix`` or ``pipe``.
        protocol: ``http`` or ``websocket``; ``None`` for lines of JSON.
        address: The address of the client.
    """

    transport: str
    protocol: str | None = None
    address: str | None = None


class Tracer(Protocol):
    """Makes spans. Each context manager is used inside one task, and none of them raises."""

    def receiving(self, headers: Mapping[str, str], network: Network) -> AbstractContextManager[None]:
        """Return a context in which messages of one HTTP request or of one channel are received.

        Args:
            headers: The headers of the HTTP request. Their trace context becomes a link of the span, because it is not
                the context of a message.
        """
        ...

    def serving(self, served: TracedRequest) -> AbstractContextManager[None]:
        """Return a context in which a request is handled."""
        ...

    def notified(self, message: Notification) -> AbstractContextManager[None]:
        """Return a context in which a received notification is handled."""
        ...

    def sending(
        self, message: Request | Notification, *, revision: str | None = None, to: str | None = None
    ) -> AbstractContextManager[TraceOutcome]:
        """Return a context in which a message is sent and its response is awaited.

        Adds the trace context to ``params._meta``.

        Args:
            to: The URL of the server, or its command.
        """
        ...

    def disconnected(self, to: str, seconds: float) -> None:
        """Record that a connection of a client has ended."""
        ...

    def waiting(self, method: str) -> AbstractContextManager[None]:
        """Return a context for waiting: a handler waits for the client's answer, or a client waits for its user."""
        ...

    def joining(self) -> AbstractContextManager[None]:
        """Return a context in which all sent messages belong to one trace."""
        ...

    def working(self, served: TracedRequest, carrier: Carrier) -> AbstractContextManager[TraceOutcome]:
        """Return a context in which a task continues a request that was answered before.

        Args:
            carrier: The value that :meth:`carrier` returned in that request.
        """
        ...

    def carrier(self) -> dict[str, str]:
        """Return the context of the current span."""
        ...

    def continues(self, carrier: Carrier) -> None:
        """Link the current span to the span of an earlier round of the same request."""
        ...

    def step(self, kind: StepKind, subject: str, error: BaseException | None) -> AbstractContextManager[None]:
        """Return a context for an operation of the server that is not a message.

        Args:
            subject: The plugin, or the operation of a store.
            error: The exception that caused the operation, if any.
        """
        ...

    @property
    def has_details(self) -> bool:
        """True if operations of stores are traced."""
        ...


class _Tracing:
    """Holds the tracer of this process. OpenTelemetry's tracer provider is per process too."""

    __slots__ = ("tracer",)

    def __init__(self) -> None:
        self.tracer: Tracer | None = None


TRACING = _Tracing()
"""The tracer of this process. Without one, tracing costs one attribute test for each message."""


def trace_channel(network: Network) -> AbstractContextManager[None]:
    """See :meth:`Tracer.receiving`."""
    return TRACING.tracer.receiving({}, network) if TRACING.tracer is not None else nullcontext()


def trace_received(message: object) -> AbstractContextManager[None]:
    """See :meth:`Tracer.notified`. A message that is not a notification is not traced here."""
    if TRACING.tracer is not None and isinstance(message, Notification):
        return TRACING.tracer.notified(message)
    return nullcontext()


def trace_answer(served: AnsweredRequest) -> AbstractContextManager[None]:
    """Return a context in which a client answers a request of the server."""
    return TRACING.tracer.serving(served) if TRACING.tracer is not None else nullcontext()


def trace_sending(
    message: Request | Notification, *, revision: str | None = None, to: str | None = None
) -> AbstractContextManager[TraceOutcome]:
    """See :meth:`Tracer.sending`."""
    if TRACING.tracer is not None:
        return TRACING.tracer.sending(message, revision=revision, to=to)
    return nullcontext(TraceOutcome())


def trace_notification(message: Notification, revision: str | None = None) -> None:
    """Trace a notification that is queued, so that its sender does not wait."""
    if TRACING.tracer is not None:
        with TRACING.tracer.sending(message, revision=revision):
            pass


def trace_wait(methods: Iterable[str]) -> AbstractContextManager[None]:
    """See :meth:`Tracer.waiting`.

    Args:
        methods: The methods of the questions, whose answers are awaited together.
    """
    if TRACING.tracer is not None:
        return TRACING.tracer.waiting(" ".join(sorted(set(methods))))
    return nullcontext()


def share_trace() -> AbstractContextManager[None]:
    """See :meth:`Tracer.joining`."""
    return TRACING.tracer.joining() if TRACING.tracer is not None else nullcontext()


def trace_work(served: TracedRequest, carrier: Carrier) -> AbstractContextManager[TraceOutcome]:
    """See :meth:`Tracer.working`."""
    return TRACING.tracer.working(served, carrier) if TRACING.tracer is not None else nullcontext(TraceOutcome())


def trace_carrier() -> dict[str, str]:
    """Return the context of the current span; empty without a tracer."""
    return TRACING.tracer.carrier() if TRACING.tracer is not None else {}


def trace_step(kind: StepKind, subject: str, error: BaseException | None = None) -> AbstractContextManager[None]:
    """See :meth:`Tracer.step`."""
    return TRACING.tracer.step(kind, subject, error) if TRACING.tracer is not None else nullcontext()
