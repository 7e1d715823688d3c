"""Draws the texts in ``docs/diagrams`` as SVG next to them: ``python docs/draw_diagrams.py``.

The first line of each text is the title.

- ``NAME.tree``: one box a line, indented by two spaces for each level, and behind a bar what it is for.
- ``NAME.sequence``: the participants, separated by commas. Then ``a > b: text`` is a message, ``a < b: text`` a
  response from a to b, and ``a: text`` a note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

__all__ = ["FOLDER", "draw"]

FOLDER = Path(__file__).resolve().parent / "diagrams"

WIDTH = 860
LINE, BOX, INDENT, MARGIN = 44, 30, 44, 16
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .middle { text-anchor: middle } .label { fill: #59636e }
  rect { fill: #eef4fb; stroke: #4f7cac; rx: 6 }
  path { fill: none; stroke: #8c959f } .answer { stroke-dasharray: 5 4 } .head { fill: #8c959f }
  .note rect { fill: #fff8e1; stroke: #c9a227 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .label { fill: #9198a1 }
    rect { fill: #16232f; stroke: #5b93c7 } path { stroke: #6e7681 } .head { fill: #6e7681 }
    .note rect { fill: #2b2611; stroke: #a88a2a }
  }"""


def draw(source: Path) -> str:
    """Return the diagram of a text as SVG.

    Raises:
        ValueError: a line is not in the format.
    """
    title, *lines = source.read_text("utf-8").splitlines()
    shapes, height = (draw_tree if source.suffix == ".tree" else draw_sequence)(lines)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{STYLE}\n</style>",
            *shapes,
            "</svg>",
            "",
        ]
    )


def draw_tree(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return the shapes of a tree, and its height."""
    shapes: list[str] = []
    parents: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        name, _, purpose = (part.strip() for part in line.partition("|"))
        level = (len(line) - len(line.lstrip())) // 2
        x, y = MARGIN + level * INDENT, MARGIN + number * LINE
        width = 24 + 8 * len(name)
        if level:
            left, top = parents[level - 1]
            shapes.append(f'<path d="M{left + 16} {top + BOX} V{y + BOX // 2} H{x}"/>')
        parents[level:] = [(x, y)]
        shapes.append(f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}"/>')
        shapes.append(f'<text class="middle" x="{x + width // 2}" y="{y + 20}">{escape(name)}</text>')
        shapes.append(f'<text class="label" x="{x + width + 14}" y="{y + 20}">{escape(purpose)}</text>')
    return shapes, 2 * MARGIN + len(lines) * LINE


def draw_sequence(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return the shapes of a sequence diagram, and its height."""
    names = [name.strip() for name in lines[0].split(",")]
    step = (WIDTH - 2 * MARGIN) // len(names)
    places = {name: MARGIN + step // 2 + step * number for number, name in enumerate(names)}
    height = 2 * MARGIN + BOX + LINE * len(lines)
    shapes = [f'<path d="M{x} {MARGIN + BOX} V{height - MARGIN}"/>' for x in places.values()]
    for name, x in places.items():
        width = min(step - 8, 24 + 8 * len(name))
        shapes.append(f'<rect x="{x - width // 2}" y="{MARGIN}" width="{width}" height="{BOX}"/>')
        shapes.append(f'<text class="middle" x="{x}" y="{MARGIN + 20}">{escape(name)}</text>')
    for number, line in enumerate(lines[1:], 1):
        y = MARGIN + BOX + LINE * number
        if arrow := re.fullmatch(r"(\S+) ([<>]) (\S+): (.+)", line):
            start, end = places[arrow[1]], places[arrow[3]]
            back = 8 if end > start else -8
            kind = ' class="answer"' if arrow[2] == "<" else ""
            shapes.append(f'<path{kind} d="M{start} {y} H{end}"/>')
            shapes.append(f'<path class="head" d="M{end} {y} l{-back} -4 v8 z"/>')
            shapes.append(f'<text class="middle label" x="{(start + end) // 2}" y="{y - 7}">{escape(arrow[4])}</text>')
        elif note := re.fullmatch(r"(\S+): (.+)", line):
            x, width = places[note[1]], 24 + 7 * len(note[2])
            x = min(x, WIDTH - MARGIN - width // 2)
            shapes.append(
                f'<g class="note"><rect x="{x - width // 2}" y="{y - 24}" width="{width}" height="26"/>'
                f'<text class="middle" x="{x}" y="{y - 7}">{escape(note[2])}</text></g>'
            )
        else:
            raise ValueError(f"expected a message, a response or a note, got {line!r}")
    return shapes, height


if __name__ == "__main__":
    for source in sorted(FOLDER.glob("*.*")):
        if source.suffix in (".tree", ".sequence"):
            source.with_suffix(".svg").write_text(draw(source), "utf-8")
