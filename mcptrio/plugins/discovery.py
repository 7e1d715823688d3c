"""Finds plugins in installed distributions and in files, without importing them.

The plugin manager uses this.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import quote_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "SHIPPED", "check_offered", "distribution_of", "import_file", "offered", "served_only_by_name"]

GROUP = "mcptrio"
"""The entry point group."""
SHIPPED = frozenset(
    {"authserver", "code", "documents", "everything", "fetch", "fs", "git", "memory", "openapi", "postgres", "shell"}
    | {"skills", "sqlite", "thinking", "time"}
)
"""The plugins of mcptrio's repository, each in the distribution ``mcptrio-NAME``; a test compares them."""
_ONLY_BY_NAME = "mcptrio.only-by-name"
"""The entry point group of plugins that a server does not take by default, such as demonstrations."""


def offered() -> dict[str, list[EntryPoint]]:
    """Return the entry points by name, sorted; those with equal names sorted by distribution."""
    from importlib.metadata import entry_points

    there = entry_points()
    points = [*there.select(group=GROUP), *there.select(group=_ONLY_BY_NAME)]
    found: dict[str, list[EntryPoint]] = {}
    # Sorted, so that the same plugins are loaded in the same order on every machine.
    for point in sorted(points, key=lambda point: point.name):
        found.setdefault(point.name, []).append(point)
    for equal in found.values():
        if len(equal) > 1:  # the name of a distribution costs reading its metadata
            equal.sort(key=lambda point: distribution_of(point)[0] or "")
    return found


def served_only_by_name() -> list[str]:
    """Return the names of the installed plugins that a server runs only if an option or a table names them."""
    return [name for name, points in offered().items() if all(point.group == _ONLY_BY_NAME for point in points)]


def check_offered(names: Iterable[str], offered: Mapping[str, object]) -> None:
    for name in names:
        if name not in offered:
            near = get_close_matches(name, offered, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"installed: {', '.join(offered) or 'none'}"
            if name in SHIPPED:
                project = f"mcptrio-{name}"
                hint = f"the distribution {project} has it: in a clone, run `pip install ./plugins/{project}`"
            if Path(f"{name}.py").is_file():
                hint = f"did you mean the file {name}.py?"
            raise ConfigError(f"no plugin {quote_name(name)} is installed; {hint}")


def distribution_of(point: EntryPoint) -> tuple[str | None, str | None]:
    dist = point.dist
    if dist is None:
        return None, None
    metadata = dist.metadata  # name and version of the distribution would each read it
    return metadata["Name"], metadata["Version"]


def import_file(path: Path, name: str | None = None) -> ModuleType:
    """Import a Python file.

    Args:
        name: The name of the module; by default one that no other module has.
    """
    name = name or f"mcptrio_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected a Python file, got {path}")
    module = importlib.util.module_from_spec(spec)
    # Added before execution, as in an import, because annotations in the file are resolved through sys.modules.
    sys.modules[name] = module
    loaded = False
    try:
        spec.loader.exec_module(module)
        loaded = True
    finally:
        # A module that failed half-way must not be found by a later import.
        if not loaded:
            del sys.modules[name]
    return module
