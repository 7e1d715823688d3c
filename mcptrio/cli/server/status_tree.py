"""The status of servers as a tree of lines: server, plugins, sessions, requests.

``mcptrio top`` prints it, and ``mcptrio ps`` uses its words for durations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from mcptrio.abc.status import PluginStatus, RequestStatus, ServerStatus, SessionStatus
from mcptrio.cli.terminal.layout import Style, TerminalLayout, count_text
from mcptrio.cli.terminal.text_width import cut
from mcptrio.ground.printable import printable
from mcptrio.serve.process_status import ProcessStatus

__all__ = ["format_seconds", "status_lines"]

_MAX_CHARS: Final = 60
"""Characters of a text that a peer controls."""
_BAR_COLUMNS: Final = 10
_LATE_SECONDS: Final = 10.0
"""A deadline that is nearer is red."""

Span = tuple[str, tuple[Style, ...]]
"""A text and its styles."""


def format_seconds(seconds: float) -> str:
    """Return a duration with one or two units: ``3.2 s``, ``12 min``, ``2 h 5 min``."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d"


def status_lines(processes: Sequence[ProcessStatus], layout: TerminalLayout) -> list[str]:
    """Return the tree of these processes, each line cut to the width of the terminal."""
    lines: list[str] = []
    for process in processes:
        for depth, spans in _process_lines(process):
            lines.append(_paint_line(depth, spans, layout))
    return lines


def _paint_line(depth: int, spans: Sequence[Span], layout: TerminalLayout) -> str:
    line = "  " * depth
    left = None if layout.width is None else layout.width - len(line)
    for text, styles in spans:
        if left is not None:
            # Cut before it is painted, because escape sequences take no columns.
            text = cut(text, left) if left > 0 else ""
            left -= len(text)
        line += layout.paint(text, *styles)
    return line.rstrip()


def _process_lines(process: ProcessStatus) -> Iterator[tuple[int, Sequence[Span]]]:
    status = process.status
    if status is None:
        yield 0, [(f"process {process.pid}", ("bold",)), ("  no response: its event loop is blocked", ("red",))]
        return
    facts = [f"pid {process.pid}", process.transport, *process.addresses, f"up {format_seconds(process.age or 0.0)}"]
    facts += [count_text(process.sessions, "sessions"), f"{count_text(status.in_flight, 'requests')} in flight"]
    state: list[Span] = []
    if status.draining:
        state = [("  stopping", ("yellow",))]
    elif not status.ready:
        state = [("  not ready", ("red",))]
    yield (
        0,
        [(_shorten(f"{status.name} {status.version}"), ("bold",)), ("  " + printable(", ".join(facts)), ()), *state],
    )
    yield from _plugin_lines(status)
    idle = sum(not session.requests for session in status.sessions)
    idle += max(0, process.sessions - len(status.sessions))
    if idle:
        yield 1, [(count_text(idle, "idle sessions"), ("dim",))]
    for task in sorted(status.tasks, key=lambda each: -each.age):
        yield 1, [("task ", ("dim",)), *_request_spans(task, ())]
    for parked in sorted(status.parked, key=lambda each: -each.age):
        waits = f"  waits between two requests for {format_seconds(parked.age)}"
        yield 1, [(_shorten(parked.label), ("bold",)), (waits, ("cyan",))]


def _plugin_lines(status: ServerStatus) -> Iterator[tuple[int, Sequence[Span]]]:
    rows = [(request, session) for session in status.sessions for request in session.requests]
    # The oldest first: the tree begins with what an operator looks for.
    rows.sort(key=lambda row: -row[0].age)
    for plugin in status.plugins:
        if plugin.state == "disabled":
            continue
        yield 1, _plugin_spans(plugin)
        yield from _session_lines([row for row in rows if row[0].plugin == plugin.name])
    names = {plugin.name for plugin in status.plugins}
    if others := [row for row in rows if row[0].plugin not in names]:
        yield 1, [("the server itself", ())]
        yield from _session_lines(others)


def _plugin_spans(plugin: PluginStatus) -> Sequence[Span]:
    state: list[Span] = [("  isolated", ("dim",))] if plugin.isolated else []
    if plugin.failure is not None:
        state.append((f"  {plugin.state}: {_shorten(plugin.failure)}", ("red",)))
    elif plugin.state != "running":
        state.append((f"  {plugin.state}", ("yellow",)))
    return [(f"plugin {_shorten(plugin.name)}", ()), *state]


def _session_lines(rows: list[tuple[RequestStatus, SessionStatus]]) -> Iterator[tuple[int, Sequence[Span]]]:
    first = {session.number: index for index, (_, session) in reversed(list(enumerate(rows)))}
    # In the order of each session's oldest request.
    ordered = sorted(rows, key=lambda row: first[row[1].number])
    for _, group in groupby(ordered, key=lambda row: row[1].number):
        of_session = list(group)
        session = of_session[0][1]
        facts = [f"session {session.number}", session.client, session.name, session.principal]
        yield 2, [(", ".join(_shorten(fact) for fact in facts if fact), ("dim",))]
        for request, _ in of_session:
            yield 3, _request_spans(request, sorted({question.method for question in session.questions}))


def _request_spans(request: RequestStatus, questions: Sequence[str]) -> Sequence[Span]:
    spans: list[Span] = [
        (_shorten(request.label), ("bold",)),
        (
            f"  {_shorten(request.method)} {_shorten(str(request.id))}" if request.label != request.method else "",
            ("dim",),
        ),
        (f"  {format_seconds(request.age)}", ()),
    ]
    if request.deadline is not None:
        is_late = request.deadline < _LATE_SECONDS
        spans.append((f"  deadline in {format_seconds(request.deadline)}", ("red",) if is_late else ()))
    if request.progress is not None:
        spans.append((f"  {_progress_text(request.progress, request.total)}", ("green",)))
    if request.cancelled is not None:
        spans.append((f"  cancelled: {_shorten(request.cancelled)}", ("yellow",)))
    elif request.waiting_for_input:
        question = f" ({', '.join(map(_shorten, questions))})" if questions else ""
        spans.append((f"  waits for its client{question}", ("cyan",)))
    elif request.waits_for is not None:
        what = {"thread": "a free thread", "store": "the store"}.get(request.waits_for, "a free place")
        spans.append((f"  waits for {what}", ("yellow",)))
    elif request.in_thread:
        spans.append(("  in a thread", ()))
    return spans


def _progress_text(progress: float, total: float | None) -> str:
    if not total or total < 0:
        return f"progress {progress:g}"
    filled = round(_BAR_COLUMNS * min(max(progress / total, 0.0), 1.0))
    return f"[{'#' * filled}{'.' * (_BAR_COLUMNS - filled)}] {progress:g} of {total:g}"


def _shorten(text: str) -> str:
    text = printable(text[: _MAX_CHARS + 1])
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
