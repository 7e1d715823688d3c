"""Writes the log of this process to standard error, as text or as JSON lines.

The commands that serve or examine plugins use it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TextIO

import click

from mcptrio.cli.terminal.layout import TerminalLayout
from mcptrio.ground.printable import printable
from mcptrio.ground.tracebacks import explain_warning, render, to_fields

_PACKAGE: Final = f"{Path(__file__).parents[2]}{os.sep}"
_COLOURS: Final = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}

__all__ = ["log_to_stderr", "log_warnings"]

_log = logging.getLogger("mcptrio.python")


def log_to_stderr(level: str, style: str, levels: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write the log to standard error from now on. Exceptions show the author's frames; at ``debug``, all frames.

    Args:
        level: One of :data:`mcptrio.serve.config.LOG_LEVELS`; less severe records are dropped.
        style: ``text`` or ``json``.
        levels: Levels of single loggers.
    """
    handler = logging.StreamHandler(sys.stderr)
    colours = TerminalLayout.of(sys.stderr).is_coloured if style == "text" else False
    text = _TextFormatter(full=level == "debug", is_coloured=colours)
    handler.setFormatter(_JSONFormatter() if style == "json" else text)
    for name, logger_level in levels.items():
        logging.getLogger(name).setLevel(logger_level.upper())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    log_warnings()


def log_warnings() -> None:
    """Write Python's warnings into the log from now on, with an explanation of a missing ``await``."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        # The line that dropped a coroutine may be mcptrio's, which tells an author nothing.
        place = "" if filename.startswith(_PACKAGE) else f"{filename}:{lineno}: "
        _log.warning("%s%s", place, explain_warning(message, category))

    # logging.captureWarnings would log the warning without an explanation.
    warnings.showwarning = show


def _request_fields() -> dict[str, Any]:
    """Return the request that the running code works for, and its trace."""
    # Not imported here: the parent of workers has a log and no requests, and loads no server.
    current = sys.modules.get("mcptrio.runtime.current")
    request = current.CURRENT.get() if current is not None else None
    if request is None:
        return {}
    scope = request.scope
    fields: dict[str, Any] = {"session": scope.session.number, "request": scope.request.id}
    if scope.request.trace_id is not None:
        fields["trace_id"] = scope.request.trace_id
    return fields


class _TextFormatter(logging.Formatter):
    def __init__(self, *, full: bool, is_coloured: bool) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self._full = full
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        line = self.formatMessage(record)
        if self._is_coloured and (colour := _COLOURS.get(record.levelname)) is not None:
            line = line.replace(record.levelname, click.style(record.levelname, fg=colour), 1)
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return line
        traceback = render(error, full=self._full, shown=record.message)
        # The text of an exception may come from a client, so it must neither control the terminal nor look like a log
        # line.
        return "\n".join([line, *(f"  {printable(each)}" for each in traceback.split("\n"))])


class _JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= _request_fields() | getattr(record, "fields", {})
        if (failure_id := getattr(record, "failure_id", None)) is not None:
            entry["failure_id"] = failure_id
        if record.exc_info and record.exc_info[1] is not None:
            entry["exception"] = to_fields(record.exc_info[1])
        return json.dumps(entry)
