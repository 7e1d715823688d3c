"""The last records of the log, with the session and the plugin that they belong to.

:class:`LogRecords` is a handler of the root logger while the console is open. It is bounded in records and characters.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from attrs import frozen

from .text import cut

__all__ = ["LEVELS", "LogEntry", "LogRecords"]

LEVELS: Final = ("debug", "info", "warning", "error")
_MAX_RECORDS: Final = 1000
_MAX_CHARS: Final = 2000
_MAX_TRACE_CHARS: Final = 8000
_FORMAT: Final = logging.Formatter()


@frozen
class LogEntry:
    """One record.

    Args:
        number: A number that increases with each record.
        session: The number of the session whose request has logged the record; ``None`` outside of requests.
        trace: The traceback of the record's exception.
    """

    number: int
    time: str
    level: str
    logger: str
    text: str
    session: int | None
    plugin: str | None
    trace: str | None


class LogRecords(logging.Handler):
    """Collects the last records.

    Args:
        source: Returns the session and the plugin of the code that runs.
    """

    def __init__(self, source: Callable[[], tuple[int | None, str | None]]) -> None:
        super().__init__()
        self._source = source
        self._entries: deque[LogEntry] = deque(maxlen=_MAX_RECORDS)
        self._number = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._add(record)
        except Exception:
            # As in the handlers of the standard library: a record that cannot be formatted must not fail its caller.
            self.handleError(record)

    def _add(self, record: logging.LogRecord) -> None:
        session, plugin = self._source()
        trace = None
        if record.exc_info and record.exc_info[1] is not None:
            # The end of a traceback has the exception itself.
            trace = _FORMAT.formatException(record.exc_info)[-_MAX_TRACE_CHARS:]
        self._number += 1
        entry = LogEntry(
            self._number,
            _FORMAT.formatTime(record, "%H:%M:%S"),
            record.levelname.lower(),
            record.name,
            cut(record.getMessage(), _MAX_CHARS),
            session,
            plugin,
            trace,
        )
        self._entries.append(entry)

    def newest(
        self, *, level: str = "debug", plugin: str = "", session: str = "", text: str = ""
    ) -> Iterator[LogEntry]:
        """Yield the records that match, the newest first.

        Args:
            level: The lowest level.
            plugin, session: The plugin and the session that have logged the record; empty for all.
            text: A part of the message or of the logger's name, in upper or lower case.
        """
        lowest = logging.getLevelNamesMapping().get(level.upper(), 0)
        levels = logging.getLevelNamesMapping()
        query_text = text.casefold()
        for entry in reversed(self._entries):
            if levels.get(entry.level.upper(), 0) < lowest:
                continue
            if (plugin and entry.plugin != plugin) or (session and str(entry.session) != session):
                continue
            if not query_text or query_text in entry.text.casefold() or query_text in entry.logger.casefold():
                yield entry

    def faults(self, plugin: str) -> Iterator[LogEntry]:
        """Yield the records of a plugin that have a traceback, the newest first."""
        yield from (entry for entry in self.newest(plugin=plugin) if entry.trace is not None)
