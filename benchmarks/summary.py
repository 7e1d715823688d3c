"""The short page about a run, ``docs/performance.md``: three sentences, one picture and one table.

Written by the command ``run.py --write``. ``benchmarks/RESULTS.md`` has all figures of the same run.
"""

from __future__ import annotations

from collections.abc import Mapping

from groups import MEASURED
from machine import describe_machine
from results import Results, digits
from servers import OURS, SERVERS
from tables import Table, markdown

__all__ = ["summary"]

_PEERS = ("mcptrio", "mcp", "fastmcp", "TypeScript")
_PICTURE = "http"
"""The group whose picture is on the page."""
_ROWS = {
    "start over stdio, ms": "start, ms",
    "stdio, one call at a time, calls/s": "stdio, 1 in flight, calls/s",
    "stdio, 64 calls in flight, calls/s": "stdio, 64 in flight, calls/s",
    "HTTP 2026-07-28, 16 connections, calls/s": "HTTP 2026-07-28, 16 connections, calls/s",
    "HTTP 2026-07-28, 16 connections, 99th percentile, ms": "HTTP 2026-07-28, 16 connections, p99 ms",
    "HTTP 2025-11-25, 16 connections, calls/s": "HTTP 2025-11-25, 16 connections, calls/s",
    "events on one stream, events/s": "SSE 2026-07-28, one stream, events/s",
    "memory after load over HTTP, MiB": "memory after load, HTTP, MiB",
    "memory of a session, KiB": "memory of a handshake session, KiB",
    "memory of an open stream, KiB": "memory of an open stream, KiB",
    "one notification to 10,000 open streams, s": "fan-out to 10,000 streams, s",
    "a call while there are 1,000 tools, µs": "a call with 1,000 tools, µs",
    "client over stdio, one call at a time, calls/s": "client, stdio, 1 in flight, calls/s",
    "client over HTTP 2026-07-28, 16 calls in flight, calls/s": "client, HTTP 2026-07-28, 16 in flight, calls/s",
}
"""Row of this page to row of the results."""

_PAGE = """\
# Performance

{sentences}

![{shows}]({picture})

{table}

The best figure of a row is bold. Rates are better when they are higher, other figures when they are lower.
A cell is empty if the library does not have the feature.
All libraries ran in turn on one machine: {machine}.
Versions: {versions}.

[All results](../benchmarks/RESULTS.md) of this run contain the spread, the targets and the method, and compare
[six plugins with six reference servers](../benchmarks/RESULTS.md#a-set-of-servers).
"""


def summary(results: Results, versions: str, pictures: Mapping[str, str]) -> str:
    """Return the page as Markdown.

    Args:
        versions: the libraries with their versions.
        pictures: for each picture, its path as seen from the page.
    """
    group = MEASURED[_PICTURE]
    return _PAGE.format(
        sentences="\n".join(_sentences(results)),
        shows=group.shows,
        picture=pictures.get(group.picture, f"performance/{group.picture}.svg"),
        table=markdown(_table(results)),
        machine=describe_machine(),
        versions=versions,
    )


def _sentences(results: Results) -> list[str]:
    http, session = "HTTP 2026-07-28, 16 connections, calls/s", "memory of a handshake session, KiB"
    stdio, start = "stdio, 1 in flight, calls/s", "start, ms"
    return [
        f"Over HTTP with 16 connections, mcptrio serves {_figure(results, OURS.name, http)} calls a second: "
        f"{_times(results, http, 'TypeScript')} times as many as the TypeScript SDK and "
        f"{_times(results, http, 'mcp')} times as many as the official Python SDK.",
        f"Over stdio, with one call at a time, it serves {_times(results, stdio, 'TypeScript')} times as many as "
        f"the TypeScript SDK and {_times(results, stdio, 'mcp')} times as many as the official Python SDK.",
        f"It starts in {_figure(results, OURS.name, start)} ms, and the TypeScript SDK in "
        f"{_figure(results, 'TypeScript', start)} ms; a session takes {_figure(results, OURS.name, session)} KiB of "
        f"memory, and {_figure(results, 'mcp', session)} KiB in the official Python SDK.",
    ]


def _times(results: Results, row: str, other: str) -> str:
    ours, theirs = results.figure(OURS.name, row), results.figure(other, row)
    return "–" if ours is None or not theirs else f"{ours / theirs:.1f}"


def _figure(results: Results, server: str, row: str) -> str:
    value = results.figure(server, row)
    return "–" if value is None else digits(value)


def _table(results: Results) -> Table:
    names = [server.name for server in SERVERS if server.name in _PEERS]
    table = [("", *names)]
    for shown, row in _ROWS.items():
        figures = {name: figure for name in names if (figure := results.figure(name, row)) is not None}
        if not figures:
            continue
        best = (max if row.endswith("/s") else min)(figures.values())
        cells = [
            ""
            if (figure := figures.get(name)) is None
            else f"**{digits(figure)}**"
            if figure == best
            else digits(figure)
            for name in names
        ]
        table.append((shown, *cells))
    return table
