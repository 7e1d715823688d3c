"""The figures as tables, for a terminal and for a page.

A cell is a median with its spread, and its ratio to ours; an empty cell was not measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from expectations import EXPECTATIONS
from results import Results, digits
from servers import OURS, SERVERS

__all__ = ["Table", "group_table", "judged", "markdown", "terminal", "verdicts_table"]

Table = Sequence[Sequence[str]]
"""The head, and the rows."""

_MET = {True: "met", False: "MISSED", None: "not measured"}


def group_table(results: Results, group: str, *, spread: bool = True) -> Table:
    """Return the figures of one group: one row each, and one column per server.

    Args:
        spread: True to show the lowest and highest figures of other servers.
    """
    measured = results.groups.get(group, {})
    names = [server.name for server in SERVERS if server.name in measured]
    table = [("", *names)]
    for row in results.rows(group):
        cells = [_cell(results, name, row, spread or name == OURS.name) for name in names]
        table.append((row, *cells))
    return table


def verdicts_table(results: Results, groups: Sequence[str]) -> Table:
    """Return all expectations of the measured groups, met or not."""
    rows = [
        (each.row, str(each), (verdict := each.judge(results)).figure, _MET[verdict.met])
        for each in EXPECTATIONS
        if each.group in groups
    ]
    return [("", "expected", "measured", ""), *rows]


def judged(results: Results, groups: Sequence[str]) -> bool:
    """Return whether every expectation of these groups is met."""
    return all(each.judge(results).met for each in EXPECTATIONS if each.group in groups)


def terminal(table: Table) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join(lines)


def markdown(table: Table, *, right: bool = True) -> str:
    """
    Args:
        right: True if all columns except the first contain figures.
    """
    head, *body = table
    lines = [
        "| " + " | ".join(head) + " |",
        "| --- |" + (" ---: |" if right else " --- |") * (len(head) - 1),
        *("| " + " | ".join(row) + " |" for row in body),
    ]
    return "\n".join(lines)


def _cell(results: Results, server: str, row: str, spread: bool) -> str:
    median, ours = results.figure(server, row), results.figure(OURS.name, row)
    if median is None:
        return ""
    values = results.values(server, row)
    cell = digits(median)
    if spread and len(values) > 1:
        cell += f" ({digits(min(values))} – {digits(max(values))})"
    if server != OURS.name and ours is not None and median:
        cell += f", {ours / median:.2f}×"
    return cell
