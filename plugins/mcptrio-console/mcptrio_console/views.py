"""The values that the templates show, one function for each page. They are made from the status, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from mcptrio.serving import RequestStatus, SessionStatus

from .charts import HEIGHT, WIDTH, make_charts
from .diagnosis import find_problems, is_slow
from .samples import Samples
from .watching import StatusWatch
from .words import as_json, state_of

__all__ = ["Paged", "Views"]

_ROWS: Final = 50
"""Rows of a page."""


@frozen
class Paged:
    """A part of a long list.

    Args:
        number: of the page, from 1.
    """

    rows: Sequence[Any]
    number: int
    pages: int
    total: int

    @classmethod
    def of(cls, rows: Sequence[Any], query: Mapping[str, str]) -> Paged:
        pages = max(1, -(-len(rows) // _ROWS))
        asked = query.get("page", "")
        number = min(pages, max(1, int(asked))) if asked.isdecimal() and len(asked) < 9 else 1
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


class Views:
    """
    Args:
        watch: has the status.
    """

    def __init__(self, watch: StatusWatch, samples: Samples) -> None:
        self._watch = watch
        self._samples = samples

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
        wanted = query.get("session", "")
        rows = [
            Row(request, session)
            for session in status.sessions
            if not wanted or str(session.number) == wanted
            for request in session.requests
        ]
        # The oldest first: the page begins with what an operator looks for.
        rows.sort(key=lambda row: -row.request.age)
        paged = Paged.of(rows, query)
        idle = sum(not session.requests for session in status.sessions)
        plugins = [
            (plugin, _grouped(of_plugin, lambda row: row.session))
            for plugin, of_plugin in _grouped(paged.rows, lambda row: row.request.plugin or "")
        ]
        return {"status": status, "paged": paged, "plugins": plugins, "idle": idle, "session": wanted[:20]}

    def sessions(self, query: Mapping[str, str]) -> dict[str, Any]:
        status = self._watch.status
        text = query.get("q", "")[:100]
        wanted = text.casefold()
        found = [each for each in status.sessions if not wanted or wanted in _words_of(each)]
        # Those with most requests first, then the oldest.
        found.sort(key=lambda each: (-len(each.requests), -each.age))
        return {"status": status, "paged": Paged.of(found, query), "q": text}


def _grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> list[tuple[Any, list[Row]]]:
    """Group rows by a key, in the order of each group's first row."""
    groups: dict[Any, tuple[Any, list[Row]]] = {}
    for row in rows:
        found = key(row)
        groups.setdefault(found if isinstance(found, str) else found.number, (found, []))[1].append(row)
    return list(groups.values())


def _words_of(session: SessionStatus) -> str:
    return f"{session.number} {session.name} {session.client} {session.principal} {session.revision}".casefold()
