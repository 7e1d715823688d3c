"""Draws the rooms of mcptrio as ``docs/rooms.svg``: ``python docs/draw_rooms.py``.

The floors are those of the table in ``docs/design.md``, the lines are the imports in the code. A line from one room to
another stands for all imports between the two, those for types included. It is left out where the same room is also
reached through a room in between. The tooltip of a room names all rooms that it imports from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["draw"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mcptrio"
TARGET = ROOT / "docs" / "rooms.svg"

WIDTH = 860
BOX, HEIGHT = 150, 30
"""The size of a room."""
STEP = 64
"""From floor to floor."""
MARGIN = 20
SHIFT = 45
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; text-anchor: middle }
  rect { fill: #eef4fb; stroke: #4f7cac; rx: 6 }
  path { fill: none; stroke: #8c959f; stroke-opacity: .55 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    rect { fill: #16232f; stroke: #5b93c7 } path { stroke: #6e7681 }
  }"""


def read_floors() -> list[list[str]]:
    """The rooms of each floor, from the ground up, as docs/design.md lists them."""
    page = (ROOT / "docs" / "design.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| ((?:`[\w.]+`[ ,]*)+)\|", page, re.MULTILINE)
    return [re.findall(r"`([\w.]+)`", rooms) for _, rooms in sorted(rows, key=lambda row: int(row[0]))]


def room_of(module: str, rooms: list[str]) -> str | None:
    """The room of a module without ``mcptrio.``: the longest name that it begins with."""
    found = [room for room in rooms if module == room or module.startswith(f"{room}.")]
    return max(found, key=len) if found else None


def read_imports(floors: list[list[str]]) -> dict[str, set[str]]:
    """The rooms on lower floors that each room imports from; only lists of public names point up."""
    number = {room: floor for floor, rooms in enumerate(floors) for room in rooms}
    rooms = list(number)
    paths = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    imports: dict[str, set[str]] = {room: set() for room in rooms}
    for module, path in paths.items():
        room = room_of(module, rooms)
        if room is None:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcptrio"):
                base = (node.module or "").removeprefix("mcptrio").removeprefix(".")
                for alias in node.names:
                    inner = f"{base}.{alias.name}".removeprefix(".")
                    target = room_of(inner if inner in paths else base, rooms)
                    if target is not None and number[target] < number[room]:
                        imports[room].add(target)
    return imports


def direct(imports: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The imports that no way through another room stands for."""

    def reached(room: str) -> set[str]:
        return imports[room].union(*(reached(each) for each in imports[room]))

    return [
        (room, target)
        for room, targets in imports.items()
        for target in sorted(targets)
        if not any(target in reached(between) for between in targets - {target})
    ]


def draw() -> str:
    """The picture as SVG."""
    floors = read_floors()
    imports = read_imports(floors)
    height = STEP * len(floors) + MARGIN
    places: dict[str, tuple[int, int]] = {}
    for number, floor in enumerate(floors):
        for position, room in enumerate(floor):
            # Rooms above each other in one column would hide the lines behind them.
            shift = SHIFT if number % 2 else -SHIFT
            x = round(WIDTH / (len(floor) + 1) * (position + 1)) + shift
            places[room] = (x, height - STEP * (number + 1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>The rooms of mcptrio and what they import</title><style>{STYLE}\n</style>",
    ]
    for room, target in direct(imports):
        (x, y), (to_x, to_y) = places[room], places[target]
        middle = (y + HEIGHT + to_y) // 2
        parts.append(
            f'<path d="M{x} {y + HEIGHT} C{x} {middle} {to_x} {middle} {to_x} {to_y}">'
            f"<title>{room} imports {target}</title></path>"
        )
    for room, (x, y) in places.items():
        named = ", ".join(sorted(imports[room])) or "no room"
        parts.append(
            f'<g><title>{room} imports {named}</title><rect x="{x - BOX // 2}" y="{y}" width="{BOX}" '
            f'height="{HEIGHT}"/><text x="{x}" y="{y + HEIGHT // 2 + 5}">{room}</text></g>'
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    TARGET.write_text(draw(), "utf-8")
