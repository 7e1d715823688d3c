"""Draws the pictures of a report as SVG: start-up, latency over load, memory over sessions.

Text stays text, and each server has its own mark and line style, so that colours are not needed to tell them apart.
Only this module needs matplotlib; without it there are only tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from calls import ERAS
from load_http import http_row
from load_memory import SESSIONS, STREAMS, memory_row
from results import Results
from scale import Scale
from servers import NULL, OURS, SERVERS

__all__ = ["can_draw", "draw"]

_LOOKS = {
    # Okabe and Ito's colours, which colour-blind people can distinguish.
    "mcptrio": ("#0072B2", "o", "-"),
    "mcp": ("#D55E00", "s", "--"),
    "fastmcp": ("#AA4499", "^", "-."),
    "TypeScript": ("#009E73", "D", ":"),
    "Hypercorn": ("#B8860B", "v", (0, (5, 1, 1, 1, 1, 1))),
    "limit": ("#555555", "x", (0, (1, 1))),
}
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mcptrio",
    "font.family": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "axes.axisbelow": True,
    "lines.linewidth": 2,
    "lines.markersize": 7,
    "legend.frameon": False,
}


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(results: Results, scale: Scale, folder: Path) -> dict[str, Path]:
    """Return the pictures for which there are figures, by name."""
    import matplotlib as mpl

    # matplotlib warns about each font family of the list that this machine lacks.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    drawn: dict[str, Path] = {}
    pictures: dict[str, Callable[[Results, Scale], Any]] = {
        "start-up": _draw_starts,
        "latency-over-load": _draw_latency,
        "memory-over-sessions": _draw_memory,
    }
    with mpl.rc_context(_STYLE):
        for name, make in pictures.items():
            figure = make(results, scale)
            if figure is None:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            drawn[name] = folder / f"{name}.svg"
            figure.savefig(drawn[name], metadata={"Date": None, "Title": name.replace("-", " ")})
    return drawn


def _draw_starts(results: Results, scale: Scale) -> Any:
    from matplotlib.figure import Figure

    row = "start, ms"
    names = [
        server.name for server in reversed(SERVERS) if server.name != NULL.name and results.values(server.name, row)
    ]
    if not names:
        return None
    figure = Figure(figsize=(8, 0.8 + 0.55 * len(names)), layout="constrained")
    axes = figure.subplots()
    for at, name in enumerate(names):
        values, median = results.values(name, row), results.figure(name, row)
        assert median is not None
        spread = [[median - min(values)], [max(values) - median]]
        axes.barh(
            at, median, xerr=spread, color=_LOOKS[name][0], height=0.6, error_kw={"ecolor": "#222222", "capsize": 3}
        )
        axes.annotate(f"{median:,.0f} ms", (max(values), at), (6, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(names)), names)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.15)
    axes.set_xlim(left=0)
    axes.set_xlabel("ms to the answer to initialize: median, lowest, highest")
    return figure


def _draw_latency(results: Results, scale: Scale) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    if not results.values(OURS.name, http_row(ERAS[0], scale.connections[0], "p50 ms")):
        return None
    figure = Figure(figsize=(10, 7.5), layout="constrained")
    grid = figure.subplots(2, len(ERAS), sharex=True, sharey="row")
    for across, era in enumerate(ERAS):
        for down, share in enumerate(("p50", "p99")):
            axes = grid[down][across]
            for name in _LOOKS:
                points = [
                    (count, median)
                    for count in scale.connections
                    if (median := results.figure(name, http_row(era, count, f"{share} ms"))) is not None
                ]
                _draw_line(axes, name, points)
            axes.set_xscale("log", base=4)
            axes.set_yscale("log")
            axes.set_xticks(scale.connections, [str(count) for count in scale.connections])
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            if down == 0:
                axes.set_title(era)
            else:
                axes.set_xlabel("connections, a call in flight on each")
            if across == 0:
                axes.set_ylabel(f"{share}, ms")
    _draw_legend(figure, grid[0][0])
    return figure


def _draw_memory(results: Results, scale: Scale) -> Any:
    from matplotlib.figure import Figure

    counts = sorted({*scale.sessions, *scale.sessions_of_ours})
    if not results.values(OURS.name, memory_row(scale.sessions_of_ours[0], SESSIONS)):
        return None
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    grid = figure.subplots(1, 2, sharey=True)
    for axes, what, title in zip(grid, (SESSIONS, STREAMS), ("handshake sessions", "open streams"), strict=True):
        for name in _LOOKS:
            points = [
                (count, median)
                for count in counts
                if (median := results.figure(name, memory_row(count, what))) is not None
            ]
            _draw_line(axes, name, points)
        axes.set_xlabel(title)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    # Not before both have their lines: from then on the top stays where it is.
    grid[0].set_ylim(bottom=0)
    grid[0].set_ylabel("resident memory, MiB")
    _draw_legend(figure, grid[0])
    return figure


def _draw_line(axes: Any, name: str, points: list[tuple[int, float]]) -> None:
    if points:
        colour, marker, style = _LOOKS[name]
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker, linestyle=style, label=name)


def _draw_legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
