"""The messages of a recording as a person reads them: each response with its request, its duration and its outcome.

``mcptrio show`` and the console display them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from attrs import frozen

from mcptrio.recording.transcript import RecordedEntry

__all__ = ["RecordedMessage", "sequence_of"]

MAX_TEXT_CHARS = 120
"""Characters of a target and an outcome."""


@frozen(kw_only=True)
class RecordedMessage:
    """A message of a recording.

    Args:
        number: Counted from 1 in the whole recording.
        t: Seconds since the recording began.
        at: The time, in UTC.
        to_server: True for a message of the client.
        session: The transport with a number, or with a hash of the session's id.
        principal: The subject of the authenticated client.
        method: The method; for a response, that of its request, or ``None`` if the recording lacks the request.
        target: The tool, prompt or resource, or another parameter that tells a person most about the message.
        seconds: From the request to this response; ``None`` for other messages.
        outcome: ``ok``, an error or another result of a response; ``no response`` for a request without a response.
        has_failed: True for an error and its request, and for a request without a response.
        message: The message as JSON, without secrets.
    """

    number: int
    t: float
    at: str
    to_server: bool
    session: str
    principal: str | None
    method: str | None
    target: str
    seconds: float | None
    outcome: str
    has_failed: bool
    message: Mapping[str, Any]

    @property
    def size(self) -> int:
        """The bytes of the message, without secrets."""
        return len(orjson.dumps(self.message))


def sequence_of(entries: Sequence[RecordedEntry]) -> Iterator[RecordedMessage]:
    """Yield the messages in their order."""
    requests: dict[int, RecordedEntry] = {}
    responses: dict[int, RecordedEntry] = {}
    unanswered: dict[tuple[str, bool, str | int | None], RecordedEntry] = {}
    for entry in entries:
        if entry.is_request:
            unanswered[entry.session, entry.to_server, entry.id] = entry
        elif entry.is_response:
            request = unanswered.pop((entry.session, not entry.to_server, entry.id), None)
            if request is not None:
                requests[entry.number], responses[request.number] = request, entry
    for entry in entries:
        request = requests.get(entry.number)
        response = entry if request is not None else responses.get(entry.number)
        outcome = ""
        if entry.is_response:
            outcome = _outcome(entry.message)
        elif entry.is_request and response is None:
            outcome = "no response"
        # A response is shown with the method and the target of its request.
        named = request if request is not None else entry
        yield RecordedMessage(
            number=entry.number,
            t=entry.t,
            at=entry.at,
            to_server=entry.to_server,
            session=entry.session,
            principal=entry.principal,
            method=named.method,
            target=_short(_target(named.params)),
            seconds=entry.t - request.t if request is not None else None,
            outcome=outcome,
            has_failed=outcome == "no response"
            or (response is not None and _outcome(response.message).startswith(("error", "tool error"))),
            message=entry.message,
        )


def _target(params: Mapping[str, Any]) -> str:
    for name in ("name", "uri", "message", "protocolVersion", "progress", "level"):
        if isinstance(value := params.get(name), str | int | float):
            return str(value)
    return ""


def _outcome(message: Mapping[str, Any]) -> str:
    error, result = message.get("error"), message.get("result")
    if isinstance(error, dict):
        return _short(f"error, {error.get('code')}: {error.get('message')}")
    if isinstance(result, dict):
        if result.get("isError"):
            return "tool error"
        for name in ("action", "resultType"):
            if isinstance(value := result.get(name), str) and value != "complete":
                return _short(value.replace("_", " "))
    return "ok"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"
