"""Formats values as text: durations, sizes, and the state of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from mcptrio.serving import ParkedStatus, QuestionStatus, RequestStatus, TaskEnded

__all__ = ["LISTENING", "as_json", "byte_count", "cut", "duration", "milliseconds", "state_of", "user_of"]

LISTENING: Final = "subscriptions/listen"
"""The method of event streams, which stay open for long."""
_MAX_CHARS: Final = 300


def duration(seconds: float | None) -> str:
    """Return seconds as text with two units at most: ``2 h 5 min``."""
    if seconds is None:
        return "none"
    if seconds < 0:
        return f"{duration(-seconds)} ago"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def milliseconds(seconds: float) -> str:
    """Return a latency as text."""
    if seconds >= 10:
        return duration(seconds)
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


def byte_count(size: int) -> str:
    """Return a number of bytes as text."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1024:.1f} KiB" if size < 1000 * 1024 else f"{size / 1024 / 1024:.1f} MiB"


def cut(text: object, chars: int = _MAX_CHARS) -> str:
    """Return a text, cut to a maximum length, because a peer may have sent it."""
    text = str(text)
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def as_json(value: object) -> str:
    """Return the id of a request as JSON, which distinguishes ``1`` from ``"1"``."""
    return orjson.dumps(value).decode()


def user_of(request: RequestStatus | ParkedStatus | TaskEnded) -> str:
    """Return the client of a request, and its user if the client is authenticated."""
    client = cut(request.client or "a client without a name", 80)
    return client if request.principal is None else f"{client}, user {cut(request.principal, 80)}"


def state_of(request: RequestStatus, questions: Sequence[QuestionStatus] = ()) -> str:
    """Return the state of a request in words: where it runs, or what it waits for."""
    if request.cancelled is not None:
        return f"is ending: {cut(request.cancelled)}"
    if request.waiting_for_input:
        methods = sorted({question.method for question in questions})
        details = f" ({', '.join(methods)})" if methods else ""
        return f"waits for its client to answer{details}"
    if request.method == LISTENING:
        return "stays open to report changes"
    where = cut(request.plugin or "the server")
    if request.waits_for == "store":
        return "waits for the shared store to answer"
    if request.waits_for == "thread":
        return f"waits for a free thread: other calls of {where} or of this client have all that they may have"
    if request.waits_for is not None:
        limited = cut(request.label) if request.waits_for == "tool" else where
        return f"waits until {limited} has a free place: other calls have all of them"
    return f"runs in a thread of {where}" if request.in_thread else f"runs in {where}"
