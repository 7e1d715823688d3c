"""The observer that logs one line for each ended request to ``mcptrio.requests``.

``mcptrio serve`` adds it to its server. Refused requests, ended sessions and ended tasks have a line too.
"""

from __future__ import annotations

import logging
from typing import Final

from mcptrio.abc.observers import RefusalReason, RequestEnded, SessionEnded, TaskEnded
from mcptrio.ground.printable import printable

__all__ = ["RequestLog"]

_log = logging.getLogger("mcptrio.requests")

_INTERNAL_PREFIX: Final = "mcptrio/"
"""The prefix of the methods that processes of mcptrio call among themselves, for example those of ``mcptrio dev``."""
_MAX_CHARS: Final = 200
"""Characters of a value in the log; clients choose some values."""

Fields = dict[str, str | int | float]


class RequestLog:
    """See :class:`mcptrio.abc.observers.Observer`."""

    def request_ended(self, request: RequestEnded, /) -> None:
        if request.method.startswith(_INTERNAL_PREFIX):
            return
        fields: Fields = {"method": request.method}
        if request.label != request.method:
            fields["name"] = request.label
        fields |= {"outcome": request.outcome, "ms": round(request.seconds * 1000, 1)}
        if request.waited:
            fields["waited_ms"] = round(request.waited * 1000, 1)
        if request.code is not None:
            fields["code"] = request.code
        fields |= {"channel": request.channel, "session": request.session}
        if request.principal is not None:
            fields["principal"] = request.principal
        if request.trace is not None:
            fields["trace_id"] = request.trace
        _write("request", fields)

    def request_refused(self, method: str, reason: RefusalReason, /) -> None:
        _write("request refused", {"method": method, "reason": reason})

    def session_ended(self, session: SessionEnded, /) -> None:
        fields: Fields = {"channel": session.channel, "session": session.number, "seconds": round(session.seconds, 1)}
        if session.reason is not None:
            fields["reason"] = session.reason
        _write("session ended", fields)

    def task_ended(self, task: TaskEnded, /) -> None:
        fields: Fields = {
            "task": task.id,
            "name": task.label,
            "outcome": task.outcome,
            "seconds": round(task.seconds, 1),
        }
        if task.code is not None:
            fields["code"] = task.code
        if task.principal is not None:
            fields["principal"] = task.principal
        _write("task ended", fields)


def _write(event: str, fields: Fields) -> None:
    if not _log.isEnabledFor(logging.INFO):
        return
    text = " ".join(f"{name}={_text(value)}" for name, value in fields.items())
    _log.info("%s: %s", event, text, extra={"fields": {"event": event, **fields}})


def _text(value: object) -> str:
    text = printable(str(value)[:_MAX_CHARS])
    # Names of clients may contain spaces, which must not look like another field.
    return text if " " not in text and "=" not in text else f'"{text}"'
