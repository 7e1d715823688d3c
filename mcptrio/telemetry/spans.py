"""The context managers that :class:`mcptrio.telemetry.tracer.OTelTracer` returns.

Most make their span the current one for the block. At the end of the block, they set the span's status and end it.
Source: OpenTelemetry semantic conventions for MCP, "Span status" and ``error.type``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from types import TracebackType
from typing import Any

import trio
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode

from mcptrio.abc.tracing import TracedRequest, TraceOutcome
from mcptrio.errors import MCPError, RequestFailed, RequestTimeout
from mcptrio.protocol.messages import ErrorResponse, Response
from mcptrio.telemetry import names
from mcptrio.telemetry.span_contents import SpanContents

__all__ = ["AttachedContext", "SentSpan", "ServedSpan", "StepSpan", "WorkSpan", "error_type"]


# These are classes because a context manager made of a generator costs several times as much, and each request has one.


class AttachedContext:
    """Makes a context the current one."""

    __slots__ = ("_context", "_token")

    def __init__(self, within: Context) -> None:
        self._context = within

    def __enter__(self) -> None:
        self._token: Token[Context] = context.attach(self._context)

    def __exit__(self, *_: object) -> None:
        context.detach(self._token)


class WorkSpan:
    """A span that fails if an exception leaves its block."""

    __slots__ = ("_context", "_token", "span")

    def __init__(self, span: Span, within: Context | None = None) -> None:
        self.span = span
        self._context = trace.set_span_in_context(span, within)

    def __enter__(self) -> None:
        self._token: Token[Context] = context.attach(self._context)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: TracebackType | None) -> None:
        context.detach(self._token)
        if error is not None:
            _fail(self.span, error_type(error))
        self.span.end()


class StepSpan:
    """A span that is not made the current one, because tasks that start in its block outlive it."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: TracebackType | None) -> None:
        if error is not None:
            _fail(self._span, error_type(error))
        self._span.end()


class ServedSpan:
    """The span of a request that is served. Its status is that of the response."""

    __slots__ = ("_contents", "_context", "_served", "_span", "_token")

    def __init__(self, span: Span, within: Context, served: TracedRequest, contents: SpanContents) -> None:
        self._span = span
        self._context = trace.set_span_in_context(span, within)
        self._served = served
        self._contents = contents

    def __enter__(self) -> None:
        self._token: Token[Context] = context.attach(self._context)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: TracebackType | None) -> None:
        context.detach(self._token)
        span, served = self._span, self._served
        if not span.is_recording():
            # The span is not sampled, so removing the secrets from an error message would be wasted time.
            pass
        elif served.reply is not None:
            params = served.request.params
            arguments = params.get("arguments") if isinstance(params, dict) else getattr(params, "arguments", None)
            _finish(span, served.reply, arguments, self._contents)
        else:
            fail_unanswered(span, served, error)
        span.end()


class SentSpan:
    """The span of a sent message, or of a task. The code in its block sets the outcome.

    Args:
        arguments: The arguments of the call, whose secrets are removed from the error message.
        measure: Called at the end with the ``error.type``, or ``None``.
        served: The request that has created a task.
    """

    __slots__ = ("_arguments", "_contents", "_context", "_measure", "_outcome", "_served", "_span", "_token")

    def __init__(
        self,
        span: Span,
        within: Context,
        arguments: Any,
        contents: SpanContents,
        measure: Callable[[str | None], None] | None = None,
        served: TracedRequest | None = None,
    ) -> None:
        self._measure = measure
        self._span = span
        self._context = within
        self._arguments = arguments
        self._contents = contents
        self._served = served
        self._outcome = TraceOutcome()

    def __enter__(self) -> TraceOutcome:
        self._token: Token[Context] = context.attach(self._context)
        return self._outcome

    def __exit__(self, _type: object, error: BaseException | None, _traceback: TracebackType | None) -> None:
        context.detach(self._token)
        span, outcome = self._span, self._outcome
        error = outcome.error if outcome.error is not None else error
        if self._measure is not None:
            self._measure(_failure_of(outcome.reply, error))
        if outcome.reply is not None:
            _finish(span, outcome.reply, self._arguments, self._contents)
        elif outcome.is_tool_error:
            _fail(span, names.TOOL_ERROR)
        # Only the request of a task knows whether a deadline, the client or the shutdown has cancelled the task.
        elif error is not None and self._served is not None and isinstance(error, trio.Cancelled):
            fail_unanswered(span, self._served, error)
        elif error is not None:
            message = error.message if isinstance(error, MCPError) else ""
            _fail(span, error_type(error), self._contents.message(message, self._arguments))
        span.end()


def error_type(error: BaseException) -> str:
    """Return the ``error.type`` of an exception, which has few different values."""
    # An HTTP response with an error status may contain the JSON-RPC error, which says more.
    if isinstance(error, RequestFailed) and error.reply is not None:
        error = error.reply
    if isinstance(error, MCPError):
        return str(int(error.code))
    if isinstance(error, RequestTimeout | trio.TooSlowError):
        return names.TIMEOUT
    if isinstance(error, trio.Cancelled):
        return names.CANCELLED
    return type(error).__name__


def fail_unanswered(span: Span, served: TracedRequest, error: BaseException | None) -> None:
    """Set the status of a request without a response, which was cancelled, has expired, or stays open."""
    if served.error is not None:
        is_late = isinstance(served.error.data, dict) and "timeout" in served.error.data
        _fail(span, names.TIMEOUT if is_late else error_type(served.error), served.error.message)
    elif served.reason is not None:
        # The client may have sent the reason, with any length.
        _fail(span, names.CANCELLED, served.reason[:128])
    elif error is not None:
        _fail(span, error_type(error))


def _failure_of(reply: Response | ErrorResponse | None, error: BaseException | None) -> str | None:
    if isinstance(reply, ErrorResponse):
        return str(reply.code)
    if reply is not None:
        return names.TOOL_ERROR if reply.result.get("isError") is True else None
    return error_type(error) if error is not None else None


def _finish(span: Span, reply: Response | ErrorResponse, arguments: Any, contents: SpanContents) -> None:
    if isinstance(reply, ErrorResponse):
        code = str(reply.code)
        span.set_attribute(names.STATUS_CODE, code)
        _fail(span, code, contents.message(reply.message, arguments))
        return
    result = reply.result
    if result.get("isError") is True:
        _fail(span, names.TOOL_ERROR)
    kind = result.get("resultType", "complete")
    if kind != "complete" and isinstance(kind, str):
        span.set_attribute(names.RESULT_KIND, kind[:32])
    elif contents.content and "content" in result:
        span.set_attribute(names.TOOL_RESULT, contents.value(result.get("structuredContent", result["content"])))


def _fail(span: Span, kind: str, message: str = "") -> None:
    span.set_attribute(names.ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR, message or None))
