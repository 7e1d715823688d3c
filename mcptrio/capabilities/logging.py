"""Log messages for the client of a request: ``logging/setLevel``, and the bridge from Python's ``logging``.

Context.log calls this, and so does the bridge, which sends the log records of a handler to the client of its request.
A message is sent only if the client has requested its level, and only after redaction.

Source: MCP 2025-11-25 and 2026-07-28, server/utilities/logging; RFC 5424 section 6.2.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from mcptrio.ground.guarded import Done, Failure, run_guarded_sync
from mcptrio.ground.redaction import REDACTED, is_secret_name, redact
from mcptrio.ground.token_bucket import TokenBucket
from mcptrio.protocol.model.base import EmptyResult
from mcptrio.protocol.model.logging import LEVELS, LoggingLevel, LoggingMessageParams, SetLevelParams
from mcptrio.runtime.current import CURRENT
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.runtime.supervisor import Supervisor

__all__ = ["ClientLogHandler", "LogSink", "Logging", "Redaction"]

_SEVERITY = {level: position for position, level in enumerate(LEVELS)}
_PYTHON: tuple[tuple[int, LoggingLevel], ...] = (
    (50, "critical"),
    (40, "error"),
    (30, "warning"),
    (25, "notice"),
    (20, "info"),
)
_LOWEST: LoggingLevel = "debug"
_UNCHECKED = "[redaction failed]"
MAX_TEXT_CHARS = 16 * 1024
"""The maximum characters of one text. A longer text is cut, with a note."""

Redaction: TypeAlias = Callable[[str], str]
"""Removes secrets from a text."""
LogSink: TypeAlias = Callable[[str, Any, str | None], None]
"""Receives each log message of each request: level, redacted data, logger."""


class Logging:
    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {"logging/setLevel": self._set_level}
        self.redactions: list[Redaction] = [redact]
        self.sinks: list[LogSink] = []

    async def _set_level(self, scope: RequestScope, params: SetLevelParams) -> EmptyResult:
        scope.session.set_log_level(params.level)
        return EmptyResult()

    def emit(self, scope: RequestScope, level: LoggingLevel, data: Any, logger: str | None) -> None:
        """Send a log message to the client of a request, if it wants this level. Does not block.

        Raises:
            ValueError: There is no such level.
        """
        if level not in _SEVERITY:
            raise ValueError(f"expected one of {', '.join(LEVELS)}, got {level!r}")
        data = self.redact(data)
        # Sinks get every level: the client's level limits only what the client gets.
        for sink in self.sinks:
            run_guarded_sync(sink, level, data, logger)
        wanted = scope.log_level
        if wanted is None or _SEVERITY[level] < _SEVERITY[wanted]:  # type: ignore[index]
            return
        session = scope.session
        bucket = session.buckets.get("logging")
        if bucket is None:
            rate = session.settings.limits.logs_per_second
            bucket = session.buckets["logging"] = TokenBucket(rate, rate)
        # Counted per session, so that one chatty handler cannot fill the client's stream.
        if not bucket.take():
            session.dropped_logs += 1
            return
        if session.dropped_logs:
            text = f"{session.dropped_logs} log messages were dropped: too many in a second"
            session.dropped_logs = 0
            scope.notify("notifications/message", LoggingMessageParams(level="warning", data=text, logger="mcptrio"))
        scope.notify("notifications/message", LoggingMessageParams(level=level, data=data, logger=logger))

    def redact(self, data: Any) -> Any:
        """Return the data without secrets: each text passes all redactions."""
        if isinstance(data, str):
            length = len(data)
            # Redact twice the length that is sent, so that the cut cannot hide half of a secret from the patterns.
            data = data[: 2 * MAX_TEXT_CHARS]
            for redaction in self.redactions:
                outcome = run_guarded_sync(redaction, data)
                # Do not send a text that could not be checked.
                data = outcome.value if isinstance(outcome, Done) and isinstance(outcome.value, str) else _UNCHECKED
            return data if length <= MAX_TEXT_CHARS else f"{data[:MAX_TEXT_CHARS]}… ({length - MAX_TEXT_CHARS} more)"
        if isinstance(data, dict):
            return {str(key): self.redact_member(str(key), value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.redact(item) for item in data]
        # Before str(), so that numbers and null stay unchanged.
        if data is None or isinstance(data, bool | int | float):
            return data
        return self.redact(str(data))

    def redact_member(self, key: str, value: Any) -> Any:
        # A number is a count of tokens, not a token.
        if not isinstance(value, bool | int | float | None) and is_secret_name(key):
            return REDACTED
        return self.redact(value)


class ClientLogHandler(logging.Handler):
    """Sends the records that a handler logs with Python's ``logging`` to the client of its request.

    Put on the root logger while a server is open. mcptrio's own records are not for clients and are left out.
    """

    def __init__(self, sink: Logging, supervisor: Supervisor) -> None:
        super().__init__()
        self._sink = sink
        self._supervisor = supervisor
        self._sending = False

    def emit(self, record: logging.LogRecord) -> None:
        # Set in the task and in the threads of a handler, and nowhere else.
        working = CURRENT.get()
        if working is None or record.name.partition(".")[0] == "mcptrio":
            return
        scope = working.scope
        # The root logger is shared: another server in the same process has its own handler.
        if not self._supervisor.has(scope.session):
            return
        level: LoggingLevel = _LOWEST
        # A loop, because pyright takes the levels that next() returns for any text.
        for number, name in _PYTHON:
            if record.levelno >= number:
                level = name
                break
        # An author's log call may have the wrong number of arguments, which logging reports on its own.
        outcome = run_guarded_sync(record.getMessage)
        if isinstance(outcome, Failure):
            return
        # Records arrive in any thread, and the session belongs to the Trio thread.
        self._supervisor.loop.hand_over(partial(self._send, scope, level, outcome.value, record.name))

    def _send(self, scope: RequestScope, level: LoggingLevel, text: str, logger: str) -> None:
        """Send a message from the Trio thread. Log records of a redaction or a sink are not sent, to prevent a loop."""
        if self._sending:
            return
        self._sending = True
        try:
            run_guarded_sync(self._sink.emit, scope, level, text, logger)
        finally:
            self._sending = False
