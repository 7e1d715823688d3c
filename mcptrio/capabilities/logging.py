"""Log messages for the client of a request: ``logging/setLevel``, and the bridge from Python's ``logging``.

``Context.log`` sends messages through :class:`Logging`, and so does the bridge, which sends the log records of a
handler to the client of its request. A message is sent if the client has requested its level, after secrets were
redacted.

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
_PYTHON_LEVELS: tuple[tuple[int, LoggingLevel], ...] = (
    (50, "critical"),
    (40, "error"),
    (30, "warning"),
    (25, "notice"),
    (20, "info"),
)
_LOWEST_LEVEL: LoggingLevel = "debug"
_REDACTION_FAILED = "[redaction failed]"
MAX_TEXT_CHARS = 16 * 1024
"""The maximum characters of one text. A longer text is cut, and ends with a note."""

Redaction: TypeAlias = Callable[[str], str]
"""A function that removes secrets from a text."""
LogSink: TypeAlias = Callable[[str, Any, str | None], None]
"""A function that receives each log message of each request: its level, redacted data and logger."""


class Logging:
    """Handles ``logging/setLevel``, and sends log messages to clients and to sinks of plugins."""

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
        # Sinks receive every level. The client's level limits only the messages to the client.
        for sink in self.sinks:
            run_guarded_sync(sink, level, data, logger)
        minimum = scope.log_level
        if minimum is None or _SEVERITY[level] < _SEVERITY[minimum]:  # type: ignore[index]
            return
        session = scope.session
        bucket = session.buckets.get("logging")
        if bucket is None:
            rate = session.settings.limits.logs_per_second
            bucket = session.buckets["logging"] = TokenBucket(rate, rate)
        # Limited per session, so that a handler with many messages cannot fill the client's stream.
        if not bucket.take():
            session.dropped_logs += 1
            return
        if session.dropped_logs:
            text = f"{session.dropped_logs} log messages were dropped: too many in a second"
            session.dropped_logs = 0
            scope.notify("notifications/message", LoggingMessageParams(level="warning", data=text, logger="mcptrio"))
        scope.notify("notifications/message", LoggingMessageParams(level=level, data=data, logger=logger))

    def redact(self, data: Any) -> Any:
        """Return the data without secrets: all redactions are applied to each text."""
        if isinstance(data, str):
            length = len(data)
            # Twice the length that is sent is redacted. Otherwise the cut could hide a part of a secret from a pattern.
            data = data[: 2 * MAX_TEXT_CHARS]
            for redaction in self.redactions:
                outcome = run_guarded_sync(redaction, data)
                # If a redaction fails, the text is not sent.
                data = (
                    outcome.value if isinstance(outcome, Done) and isinstance(outcome.value, str) else _REDACTION_FAILED
                )
            return data if length <= MAX_TEXT_CHARS else f"{data[:MAX_TEXT_CHARS]}… ({length - MAX_TEXT_CHARS} more)"
        if isinstance(data, dict):
            return {str(key): self.redact_member(str(key), value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.redact(item) for item in data]
        # Numbers and null are not converted to text.
        if data is None or isinstance(data, bool | int | float):
            return data
        return self.redact(str(data))

    def redact_member(self, key: str, value: Any) -> Any:
        """Return the value of a member without secrets. The name may show that the whole value is a secret."""
        # A number with such a name is more likely a count, for example of tokens.
        if not isinstance(value, bool | int | float | None) and is_secret_name(key):
            return REDACTED
        return self.redact(value)


class ClientLogHandler(logging.Handler):
    """Sends the records that a handler logs with Python's ``logging`` to the client of its request.

    It is added to the root logger while a server is open. mcptrio's own records are not sent to clients.
    """

    def __init__(self, sink: Logging, supervisor: Supervisor) -> None:
        super().__init__()
        self._sink = sink
        self._supervisor = supervisor
        self._sending = False

    def emit(self, record: logging.LogRecord) -> None:
        # Set only in the tasks and threads of a handler.
        working = CURRENT.get()
        if working is None or record.name.partition(".")[0] == "mcptrio":
            return
        scope = working.scope
        # Servers in the same process share the root logger; each has its own handler.
        if not self._supervisor.has(scope.session):
            return
        level: LoggingLevel = _LOWEST_LEVEL
        # Not next(), because pyright then infers str instead of LoggingLevel.
        for number, name in _PYTHON_LEVELS:
            if record.levelno >= number:
                level = name
                break
        # A log call of an author may have the wrong number of arguments. Other handlers report that.
        outcome = run_guarded_sync(record.getMessage)
        if isinstance(outcome, Failure):
            return
        # Records arrive in any thread, but the session belongs to the Trio thread.
        self._supervisor.loop.hand_over(partial(self._send, scope, level, outcome.value, record.name))

    def _send(self, scope: RequestScope, level: LoggingLevel, text: str, logger: str) -> None:
        """Send a message, in the Trio thread."""
        # A redaction or a sink may log, which would call this method again.
        if self._sending:
            return
        self._sending = True
        try:
            run_guarded_sync(self._sink.emit, scope, level, text, logger)
        finally:
            self._sending = False
