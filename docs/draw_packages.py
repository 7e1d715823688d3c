"""Draws the packages of mcptrio as ``docs/packages.svg``: ``python docs/draw_packages.py``.

The table in ``docs/design.md`` lists the layers, and the code has the imports. A line from one package to another
stands for all imports between the two, including those for types. It is left out where another package in between leads
there. The tooltip of a package names all packages that it imports from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["draw"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mcptrio"
TARGET = ROOT / "docs" / "packages.svg"

WIDTH = 860
BOX, HEIGHT = 150, 30
"""The size of the box of a package."""
STEP = 64
"""The distance from one layer to the next."""
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


def read_layers() -> list[list[str]]:
    """The packages of each layer, from the lowest up, as docs/design.md lists them."""
    page = (ROOT / "docs" / "design.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| ((?:`[\w.]+`[ ,]*)+)\|", page, re.MULTILINE)
    return [re.findall(r"`([\w.]+)`", packages) for _, packages in sorted(rows, key=lambda row: int(row[0]))]


def package_of(module: str, packages: list[str]) -> str | None:
    """The package of a module without ``mcptrio.``: the longest name that it begins with."""
    found = [package for package in packages if module == package or module.startswith(f"{package}.")]
    return max(found, key=len) if found else None


def read_imports(layers: list[list[str]]) -> dict[str, set[str]]:
    """The packages on lower layers that each package imports from; only lists of public names point up."""
    number = {package: layer for layer, packages in enumerate(layers) for package in packages}
    packages = list(number)
    paths = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    imports: dict[str, set[str]] = {package: set() for package in packages}
    for module, path in paths.items():
        package = package_of(module, packages)
        if package is None:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcptrio"):
                base = (node.module or "").removeprefix("mcptrio").removeprefix(".")
                for alias in node.names:
                    inner = f"{base}.{alias.name}".removeprefix(".")
                    target = package_of(inner if inner in paths else base, packages)
                    if target is not None and number[target] < number[package]:
                        imports[package].add(target)
    return imports


def direct(imports: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The imports that no path through another package repeats."""

    def reached(package: str) -> set[str]:
        return imports[package].union(*(reached(each) for each in imports[package]))

    return [
        (package, target)
        for package, targets in imports.items()
        for target in sorted(targets)
        if not any(target in reached(between) for between in targets - {target})
    ]


def draw() -> str:
    """The picture as SVG."""
    layers = read_layers()
    imports = read_imports(layers)
    height = STEP * len(layers) + MARGIN
    places: dict[str, tuple[int, int]] = {}
    for number, layer in enumerate(layers):
        for position, package in enumerate(layer):
            # Packages above each other in one column would hide the lines behind them.
            shift = SHIFT if number % 2 else -SHIFT
            x = round(WIDTH / (len(layer) + 1) * (position + 1)) + shift
            places[package] = (x, height - STEP * (number + 1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>The packages of mcptrio and what they import</title><style>{STYLE}\n</style>",
    ]
    for package, target in direct(imports):
        (x, y), (to_x, to_y) = places[package], places[target]
        middle = (y + HEIGHT + to_y) // 2
        parts.append(
            f'<path d="M{x} {y + HEIGHT} C{x} {middle} {to_x} {middle} {to_x} {to_y}">'
            f"<title>{package} imports {target}</title></path>"
        )
    for package, (x, y) in places.items():
        named = ", ".join(sorted(imports[package])) or "no package"
        parts.append(
            f'<g><title>{package} imports {named}</title><rect x="{x - BOX // 2}" y="{y}" width="{BOX}" '
            f'height="{HEIGHT}"/><text x="{x}" y="{y + HEIGHT // 2 + 5}">{package}</text></g>'
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    TARGET.write_text(draw(), "utf-8")
