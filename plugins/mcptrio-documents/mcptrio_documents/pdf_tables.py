"""Finds the tables of a PDF page by their ruled lines.

The PDF reader calls it for each page. A PDF file has no tables, only lines and letters. Horizontal and vertical lines
that touch each other form a grid, and each field of the grid is a cell. Tables without lines remain text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pypdfium2 import raw  # type: ignore[import-untyped]

__all__ = ["PdfTable", "find_tables"]

_TOLERANCE = 3.0
"""Maximum distance in points between lines that count as touching."""
_MIN_LENGTH = 6.0
"""Minimum length of a line in points; shorter lines belong to letters and drawings."""
_MAX_OBJECTS = 20_000
_MAX_POINTS = 64
"""Maximum number of points of a path; a path with more is a drawing."""
_MAX_LINES = 1000
"""Maximum number of horizontal, and of vertical, lines on a page; a page with more is a drawing."""
_MAX_CELLS = 5000
_MAX_DEPTH = 4
"""Maximum depth of nested forms in which lines are looked for."""


class PdfTable(NamedTuple):
    """A table, in coordinates of its page: larger values are higher on the page."""

    top: float
    bottom: float
    rows: list[list[str]]


class _Line(NamedTuple):
    position: float
    """The coordinate that is the same along the line."""
    start: float
    end: float


def find_tables(page: Any, words: Any) -> list[PdfTable]:
    """Return the tables of a page from top to bottom, without those to the left or right of another one.

    Args:
        words: The text page, which contains the text of the cells.
    """
    across: list[_Line] = []
    down: list[_Line] = []
    for start, end in _segments(page):
        (left, bottom), (right, top) = sorted((start, end))
        if right - left >= _MIN_LENGTH and abs(top - bottom) <= 1:
            across.append(_Line((top + bottom) / 2, left, right))
        elif right - left <= 1 and abs(top - bottom) >= _MIN_LENGTH:
            down.append(_Line((left + right) / 2, min(bottom, top), max(bottom, top)))
        if len(across) > _MAX_LINES or len(down) > _MAX_LINES:
            return []
    tables = [table for grid in _grids(across, down) if (table := _table(*grid, words)) is not None]
    tables.sort(key=lambda table: -table.top)
    separate_tables: list[PdfTable] = []
    for table in tables:
        if not separate_tables or table.top <= separate_tables[-1].bottom + _TOLERANCE:
            separate_tables.append(table)
    return separate_tables


def _segments(page: Any) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Yield the straight segments of the paths of a page."""
    x, y = ctypes.c_float(), ctypes.c_float()
    objects = page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=_MAX_DEPTH)
    for count, path in enumerate(objects):
        if count > _MAX_OBJECTS:
            return
        points = raw.FPDFPath_CountSegments(path.raw)
        if not 1 < points <= _MAX_POINTS:
            continue
        matrix = path.get_matrix()
        first = previous = None
        for index in range(points):
            segment = raw.FPDFPath_GetPathSegment(path.raw, index)
            if not segment or not raw.FPDFPathSegment_GetPoint(segment, x, y):
                break
            point = matrix.on_point(x.value, y.value)
            kind = raw.FPDFPathSegment_GetType(segment)
            if kind == raw.FPDF_SEGMENT_MOVETO:
                first = point
            elif kind == raw.FPDF_SEGMENT_LINETO and previous is not None:
                yield previous, point
            if raw.FPDFPathSegment_GetClose(segment) and first is not None:
                yield point, first
            previous = point


def _grids(across: Sequence[_Line], down: Sequence[_Line]) -> Iterator[tuple[list[_Line], list[_Line]]]:
    """Yield groups of lines that touch each other, found with a disjoint-set forest."""
    lines = [*across, *down]
    group = list(range(len(lines)))

    def root(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    for i, horizontal in enumerate(across):
        for j, vertical in enumerate(down, len(across)):
            touches_across = horizontal.start - _TOLERANCE <= vertical.position <= horizontal.end + _TOLERANCE
            if touches_across and vertical.start - _TOLERANCE <= horizontal.position <= vertical.end + _TOLERANCE:
                group[root(i)] = root(j)
    grids: dict[int, tuple[list[_Line], list[_Line]]] = {}
    for index, line in enumerate(lines):
        grids.setdefault(root(index), ([], []))[index >= len(across)].append(line)
    yield from grids.values()


def _table(across: list[_Line], down: list[_Line], words: Any) -> PdfTable | None:
    """Read the cells of a grid; ``None`` if it has fewer than two rows and two columns with text."""
    ys, xs = _distinct(across)[::-1], _distinct(down)
    if len(ys) < 3 or len(xs) < 3 or (len(ys) - 1) * (len(xs) - 1) > _MAX_CELLS:
        return None
    rows = []
    for top, bottom in pairwise(ys):
        middle = (top + bottom) / 2
        # If there is no line between two fields, they are one cell.
        edges = [x for x in xs if x in (xs[0], xs[-1]) or _is_ruled(down, x, middle)]
        row = [""] * (len(xs) - 1)
        for left, right in pairwise(edges):
            row[xs.index(left)] = words.get_text_bounded(left=left, bottom=bottom, right=right, top=top).strip()
        rows.append(row)
    rows = [row for row in rows if any(row)]
    if len(rows) < 2 or sum(any(row[column] for row in rows) for column in range(len(xs) - 1)) < 2:
        return None
    return PdfTable(ys[0], ys[-1], rows)


def _distinct(lines: list[_Line]) -> list[float]:
    """Return the positions of lines. Lines that are close together have one position."""
    values: list[float] = []
    for position in sorted(line.position for line in lines):
        if not values or position - values[-1] > _TOLERANCE:
            values.append(position)
    return values


def _is_ruled(down: list[_Line], x: float, y: float) -> bool:
    return any(abs(line.position - x) <= _TOLERANCE and line.start <= y <= line.end for line in down)
