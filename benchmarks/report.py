"""The table of a run, for a terminal and for a file."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from expectations import expectation_of

__all__ = ["Samples", "markdown", "rows", "text"]

Samples = Mapping[str, Mapping[str, Sequence[float]]]
"""Server to row to one figure a round."""

_HEAD = ("", "mcptrio", "lowest – highest", "mcp", "× mcp", "fastmcp", "× fastmcp", "generator alone", "expected", "")

_METHOD = """\
Every figure is the median of {rounds} rounds; in each round every server is started and measured in turn, the order
shifting by one, so that what else the machine does falls on all alike. A server runs in a virtual environment with
nothing but itself and what it needs, logs warnings only, and has one `async` tool that returns its text; the text is
`hello`. The peers produce no structured content, as we do not. HTTP is served as each does by default.

The load generator is a process of its own on the same machine, with blocking pipes and sockets, messages encoded
beforehand and answers counted rather than decoded. *Generator alone* is what it reaches against a process that gives
the same bytes to everybody without reading them: a server near that figure would be faster than is shown.

The rows of clients are the other way round: each client, in its own environment, against one server that is made for
this and does nothing but answer. There 16 in flight share one connection over stdio, and have what they open over HTTP.

Start-up is from the start of the process to its answer to `initialize`. Memory is resident memory: after one call, and
after the calls of the stdio or HTTP rows. Each connection is a client of its own, with one call in flight; in
2025-11-25 with a session of its own.

Again: `python benchmarks/run.py`.
"""


def rows(samples: Samples) -> list[tuple[str, ...]]:
    """The head, and a row for each figure."""
    table: list[tuple[str, ...]] = [_HEAD]
    names = list(dict.fromkeys(row for measured in samples.values() for row in measured))
    for row in names:
        figures = {server: median(measured[row]) for server, measured in samples.items() if row in measured}
        if set(figures) == {"null"}:
            continue
        ours, sdk, fast = figures.get("mcptrio"), figures.get("mcp"), figures.get("fastmcp")
        expected = expectation_of(row)
        verdict = ""
        if expected is not None and ours is not None:
            verdict = {True: "pass", False: "FAIL", None: "?"}[expected.is_met(ours, sdk)]
        all_of_ours = samples.get("mcptrio", {}).get(row, ())
        table.append(
            (
                row,
                _figure(ours),
                f"{_figure(min(all_of_ours))} – {_figure(max(all_of_ours))}" if all_of_ours else "",
                _figure(sdk),
                _ratio(ours, sdk),
                _figure(fast),
                _ratio(ours, fast),
                _figure(figures.get("null")) if row.endswith("calls/s") else "",
                str(expected) if expected is not None else "",
                verdict,
            )
        )
    return table


def text(table: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEAD))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 8, 9) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    return "\n".join(lines)


def markdown(samples: Samples, versions: Mapping[str, str], rounds: int, load: Sequence[float]) -> str:
    """The whole page.

    Args:
        load: the machine's load average before and after.
    """
    head, *body = rows(samples)
    lines = [
        "# Benchmarks",
        "",
        f"Machine: {_cpu()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}. "
        f"Load average {load[0]:.1f} before and {load[1]:.1f} after.",
        f"Python {platform.python_version()}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
        "",
        "| " + " | ".join(head) + " |",
        "| --- |" + " ---: |" * 7 + " --- | --- |",
        *("| " + " | ".join(row) + " |" for row in body),
        "",
        _METHOD.format(rounds=rounds),
    ]
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return f"{ours / theirs:.2f}" if ours is not None and theirs else ""


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
