"""Our own log on standard error, as text or as JSON lines."""

from __future__ import annotations

import json
import logging
import sys

__all__ = ["LEVELS", "log_to_stderr"]

LEVELS = ("debug", "info", "warning", "error")


def log_to_stderr(level: str, style: str) -> None:
    """Write the log to standard error from now on.

    Args:
        level: one of :data:`LEVELS`; less severe records are dropped.
        style: ``text`` or ``json``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JSONFormatter() if style == "json" else logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())


class _JSONFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)
