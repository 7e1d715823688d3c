"""The progress of a request: a bar in the last line of the terminal; in a pipe, a line at intervals.

The server's numbers are not trusted: infinite or negative ones must not break the line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.text_width import columns, cut
from mcptrio.client.calls import Progress
from mcptrio.ground.quoting import printable

__all__ = ["ProgressLine", "progress_line"]

_BAR = 24
"""Columns of the bar."""
_LINE_INTERVAL = 1.0
"""Seconds between two lines in a pipe."""


class ProgressLine:
    """Called with each report. Made by :func:`progress_line`."""

    def __init__(self, console: Console, label: str) -> None:
        self._console = console
        self._label = printable(label)
        self._latest: Progress | None = None
        self._status: str | None = None
        # The first report is shown at once.
        self._reported_at = -math.inf

    def __call__(self, progress: Progress) -> None:
        self._latest, self._status = progress, None
        message = f" {progress.message}" if progress.message else ""
        self._show(f"{_progress_text(progress)}{message}")

    def show_status(self, text: str) -> None:
        """Show a text in place of the bar, such as the status of a task."""
        self._status = text
        self._show(text)

    def _show(self, text: str) -> None:
        if self._console.has_bottom:
            self._console.refresh()
        elif trio.current_time() - self._reported_at >= _LINE_INTERVAL:
            self._reported_at = trio.current_time()
            self._console.note(f"{self._label}: {text}")

    def draw(self, width: int) -> str:
        """Return one row: the label, the bar, the percentage and the server's message."""
        if self._status is not None:
            return cut(f"{cut(self._label, width // 3)}  {printable(self._status[:width])}", width)
        if self._latest is None:
            return self._console.paint(cut(f"{self._label} …", width), "dim")
        share = _share(self._latest)
        bar = "" if share is None else f" [{'#' * round(share * _BAR):.<{_BAR}}]"
        text = f"{cut(self._label, width // 3)}{bar} {_progress_text(self._latest)}"
        if self._latest.message:
            # Cut first: the server can send a long message with each report, and escaping it takes time.
            text += f" {printable(self._latest.message[:width])}"
        return cut(text, width) if columns(text) > width else text


@contextmanager
def progress_line(console: Console, label: str) -> Iterator[ProgressLine]:
    line = ProgressLine(console, label)
    with console.bottom(line):
        yield line


def _share(progress: Progress) -> float | None:
    """Return the share between 0 and 1; ``None`` if it is unknown."""
    total = progress.total
    if total is None or not math.isfinite(total) or total <= 0 or not math.isfinite(progress.progress):
        return None
    # A server may report more than the total.
    return min(max(progress.progress / total, 0.0), 1.0)


def _progress_text(progress: Progress) -> str:
    share = _share(progress)
    if share is not None:
        return f"{share:4.0%}"
    return f"{progress.progress:g}" + (f"/{progress.total:g}" if progress.total is not None else "")
