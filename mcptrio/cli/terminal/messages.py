"""Shows log messages of the server and of this process, as lines on standard error, coloured by severity."""

from __future__ import annotations

import json
import logging
import re
from contextlib import suppress
from textwrap import indent

from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.layout import Style
from mcptrio.ground.quoting import printable
from mcptrio.ground.tracebacks import render
from mcptrio.protocol.model.logging import LoggingMessageParams

__all__ = ["ConsoleHandler", "show_message"]

_STYLES: dict[str, tuple[Style, ...]] = {
    "debug": ("dim",),
    "info": ("cyan",),
    "notice": ("cyan", "bold"),
    "warning": ("yellow",),
    "error": ("red",),
    "critical": ("red", "bold"),
    "alert": ("red", "bold"),
    "emergency": ("red", "bold"),
}
# The id that an mcptrio server logs with a failure, and sends to the client in place of the cause.
_FAILURE = re.compile(r"\(id ([0-9a-f]{8})\)")
_MAX_MESSAGE_CHARS = 4_000
"""Maximum number of characters of a message that are shown."""


def show_message(console: Console, message: LoggingMessageParams) -> None:
    logger = f" {message.logger[:100]}:" if message.logger else ""
    data = message.data
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    _show(console, message.level, f"{logger} {text}")


class ConsoleHandler(logging.Handler):
    """Shows mcptrio's own log. The traceback of an exception has the frames of the author's code only.

    Args:
        verbose: True to show the loggers' names and all frames.
    """

    def __init__(self, console: Console, *, verbose: bool) -> None:
        super().__init__()
        self._console = console
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record. If standard error is closed, show nothing more."""
        name = f" {record.name}:" if self._verbose else ""
        # Logging must not fail in the code that logs.
        with suppress(OSError):
            _show(self._console, record.levelname.lower(), f"{name} {record.getMessage()}")
            if record.exc_info and record.exc_info[1] is not None:
                traceback = render(record.exc_info[1], full=self._verbose, shown=record.getMessage())
                self._console.note(indent(traceback, "  "))
        # Also for isolated plugins, whose log records arrive as text.
        self._console.failures.extend(_FAILURE.findall(record.getMessage()))
        if record.levelno == logging.WARNING:
            self._console.warnings.append(record.getMessage()[:_MAX_MESSAGE_CHARS])


def _show(console: Console, level: str, text: str) -> None:
    # A server may send megabytes in one message.
    shortened = text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:_MAX_MESSAGE_CHARS]}…"
    console.note_painted(f"{console.paint(f'[{level}]', *_STYLES.get(level, ()))}{printable(shortened)}")
