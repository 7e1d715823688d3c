"""The values that the templates show, with one function for each page. They only read the state of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from traceback import format_exception
from typing import Any, Final

import orjson
import trio
from attrs import frozen

from mcptrio import Server
from mcptrio.serving import ConsoleOptions, PluginStatus, RequestStatus, SessionStatus

from .charts import HEIGHT, WIDTH, make_charts
from .diagnosis import find_problems, is_slow
from .log_records import LEVELS, LogRecords
from .samples import LabelFigures, Samples
from .status_watch import StatusWatch
from .text import as_json, cut, state_of
from .wire import WireRecorder

__all__ = ["Paged", "Views"]

_ROWS: Final = 50
"""Rows of a page."""
_MAX_TASKS: Final = 200
_MAX_LOG_ROWS: Final = 200
_MAX_FAULTS: Final = 5
_MAX_TRACE_CHARS: Final = 8000
_MAX_MESSAGE_CHARS: Final = 256 * 1024


@frozen
class Paged:
    """A part of a long list.

    Args:
        number: The number of the page, from 1.
    """

    rows: Sequence[Any]
    number: int
    pages: int
    total: int

    @classmethod
    def of(cls, rows: Sequence[Any], query: Mapping[str, str]) -> Paged:
        pages = max(1, -(-len(rows) // _ROWS))
        requested = query.get("page", "")
        number = min(pages, max(1, int(requested))) if requested.isdecimal() and len(requested) < 9 else 1
        return cls(rows[(number - 1) * _ROWS : number * _ROWS], number, pages, len(rows))


@frozen
class Row:
    """A request with its session."""

    request: RequestStatus
    session: SessionStatus

    @property
    def state(self) -> str:
        return state_of(self.request, self.session.questions)

    @property
    def is_slow(self) -> bool:
        return is_slow(self.request)

    @property
    def id(self) -> str:
        return as_json(self.request.id)


@frozen
class ToolRow:
    """A tool that is offered now, or was called since the console was opened."""

    name: str
    is_offered: bool
    owner: str | None
    figures: LabelFigures | None

    @property
    def plugin(self) -> str | None:
        return self.owner or (None if self.figures is None else self.figures.plugin)


class Views:
    """The values of each page.

    Args:
        watch: Returns the status of the server.
    """

    def __init__(
        self,
        server: Server,
        options: ConsoleOptions,
        watch: StatusWatch,
        samples: Samples,
        records: LogRecords,
        wire: WireRecorder,
    ) -> None:
        self._wire = wire
        self._server = server
        self._options = options
        self._watch = watch
        self._samples = samples
        self._records = records

    def now(self, _query: Mapping[str, str]) -> dict[str, Any]:
        status = self._watch.status
        return {
            "status": status,
            "problems": find_problems(status, self._samples),
            "charts": make_charts(self._samples, sessions=len(status.sessions)),
            "width": WIDTH,
            "height": HEIGHT,
        }

    def tree(self, query: Mapping[str, str]) -> dict[str, Any]:
        status = self._watch.status
        session_number = query.get("session", "")
        rows = [
            Row(request, session)
            for session in status.sessions
            if not session_number or str(session.number) == session_number
            for request in session.requests
        ]
        # The oldest first, because an operator usually looks for these.
        rows.sort(key=lambda row: -row.request.age)
        paged = Paged.of(rows, query)
        idle = sum(not session.requests for session in status.sessions)
        plugins = [
            (plugin, _group_rows(of_plugin, lambda row: row.session))
            for plugin, of_plugin in _group_rows(paged.rows, lambda row: row.request.plugin or "")
        ]
        return {"status": status, "paged": paged, "plugins": plugins, "idle": idle, "session": session_number[:20]}

    def sessions(self, query: Mapping[str, str]) -> dict[str, Any]:
        status = self._watch.status
        text = query.get("q", "")[:100]
        search_text = text.casefold()
        sessions = [each for each in status.sessions if not search_text or search_text in _words_of(each)]
        # Sessions with most requests come first, then the oldest.
        sessions.sort(key=lambda each: (-len(each.requests), -each.age))
        return {"status": status, "paged": Paged.of(sessions, query), "q": text}

    def plugins(self, _query: Mapping[str, str]) -> dict[str, Any]:
        status = self._watch.status
        return {"plugins": [self._plugin(each) for each in status.plugins]}

    def tools(self, query: Mapping[str, str]) -> dict[str, Any]:
        status = self._watch.status
        owners = {name: plugin.name for plugin in status.plugins for name in plugin.offers.get("tools", ())}
        figures = {label: each for (method, label), each in self._samples.labels.items() if method == "tools/call"}
        text = query.get("q", "")[:100]
        names = [name for name in sorted({*owners, *figures}) if text.casefold() in name.casefold()]
        rows = [ToolRow(name, name in owners, owners.get(name), figures.get(name)) for name in names]
        # Tools with most calls come first, then in the order of their names.
        rows.sort(key=lambda row: -(row.figures.calls if row.figures is not None else 0))
        others = [(label, each) for (method, label), each in self._samples.labels.items() if method != "tools/call"]
        others.sort(key=lambda row: -row[1].calls)
        return {"paged": Paged.of(rows, query), "q": text, "others": others[:_ROWS]}

    def tasks(self, _query: Mapping[str, str]) -> dict[str, Any]:
        now, samples = trio.current_time(), self._samples
        return {
            "tasks": sorted(self._watch.status.tasks, key=lambda each: -each.age)[:_MAX_TASKS],
            "ended": [(now - at, task) for at, task in reversed(samples.tasks)],
            "count": samples.task_count,
            "failed": samples.failed_task_count,
        }

    def log(self, query: Mapping[str, str]) -> dict[str, Any]:
        level = query.get("level", "info")
        filters = {name: query.get(name, "")[:100] for name in ("plugin", "session", "q")}
        entries = self._records.newest(
            level=level if level in LEVELS else "info",
            plugin=filters["plugin"],
            session=filters["session"],
            text=filters["q"],
        )
        plugins = [plugin.name for plugin in self._watch.status.plugins]
        return {
            **filters,
            "entries": list(islice(entries, _MAX_LOG_ROWS)),
            "level": level,
            "levels": LEVELS,
            "names": plugins,
            "follows": query.get("follow") != "0",
        }

    def wire(self, query: Mapping[str, str]) -> dict[str, Any]:
        recorded = self._wire.recorded
        if recorded is None:
            return {"recorded": None}
        paged = Paged.of(recorded.recording.messages, query)
        return {"recorded": recorded, "paged": paged, "size": recorded.recording.size}

    def message(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of the page of one message.

        Raises:
            LookupError: There is no such message.
        """
        messages = self._wire.recorded.recording.messages if self._wire.recorded is not None else ()
        requested = query.get("number", "")
        number = int(requested) if requested.isdecimal() and len(requested) < 9 else 0
        if not 0 < number <= len(messages):
            raise LookupError("The recording has no such message.")
        each = messages[number - 1]
        text = orjson.dumps(each.message, option=orjson.OPT_INDENT_2).decode()
        return {"each": each, "text": cut(text, _MAX_MESSAGE_CHARS), "total": len(messages)}

    def replicas(self, _query: Mapping[str, str]) -> dict[str, Any]:
        return {"stores": self._watch.status.stores}

    def _plugin(self, plugin: PluginStatus) -> dict[str, Any]:
        figures = [each for each in self._samples.labels.values() if each.plugin == plugin.name]
        tokens = self._options.tokens_of(plugin.name)
        newest = islice(self._records.faults(plugin.name), _MAX_FAULTS)
        faults = [(f"{entry.time} {entry.text}", entry.trace) for entry in newest]
        loaded_plugin = self._server.plugins.plugins.get(plugin.name)
        if loaded_plugin is not None and loaded_plugin.error is not None:
            faults.insert(0, (plugin.failure or "", "".join(format_exception(loaded_plugin.error))[-_MAX_TRACE_CHARS:]))
        return {
            "status": plugin,
            "settings": list(self._options.settings_of(plugin.name)),
            "tokens": tokens,
            "total": sum(tokens.values()),
            "calls": sum(each.calls for each in figures),
            "failures": sum(each.failures for each in figures),
            "faults": faults,
        }


def _group_rows(rows: Iterable[Row], key: Callable[[Row], Any]) -> list[tuple[Any, list[Row]]]:
    """Group rows by a key, in the order of each group's first row."""
    groups: dict[Any, tuple[Any, list[Row]]] = {}
    for row in rows:
        group_key = key(row)
        groups.setdefault(group_key if isinstance(group_key, str) else group_key.number, (group_key, []))[1].append(row)
    return list(groups.values())


def _words_of(session: SessionStatus) -> str:
    return f"{session.number} {session.name} {session.client} {session.principal} {session.revision}".casefold()
