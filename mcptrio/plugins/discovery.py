"""Finds plugins in installed distributions and in files, without importing them.

The plugin manager uses this.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.suggestions import suggest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "GROUP",
    "SHIPPED",
    "check_offered",
    "distribution_of",
    "import_file",
    "installed_entry_points",
    "load_object",
    "served_only_by_name",
]

GROUP = "mcptrio"
"""The entry point group of plugins."""
SHIPPED = frozenset(
    {"authserver", "code", "documents", "everything", "fetch", "fs", "git", "memory", "openapi", "postgres", "shell"}
    | {"skills", "sqlite", "thinking", "time"}
)
"""The plugins of mcptrio's repository, each in the distribution ``mcptrio-NAME``; a test compares them."""
_ONLY_BY_NAME = "mcptrio.only-by-name"
"""The entry point group of plugins that a server does not take by default, such as demonstrations."""


def installed_entry_points() -> dict[str, list[EntryPoint]]:
    """Return the entry points of installed plugins by name, sorted; those with equal names sorted by distribution."""
    from importlib.metadata import entry_points

    installed = entry_points()
    points = [*installed.select(group=GROUP), *installed.select(group=_ONLY_BY_NAME)]
    points_by_name: dict[str, list[EntryPoint]] = {}
    # Sorted, so that the same plugins are loaded in the same order on every machine.
    for point in sorted(points, key=lambda point: point.name):
        points_by_name.setdefault(point.name, []).append(point)
    for same_name in points_by_name.values():
        if len(same_name) > 1:  # otherwise the metadata of the distribution is not read
            same_name.sort(key=lambda point: distribution_of(point)[0] or "")
    return points_by_name


def load_object(point: EntryPoint) -> Any:
    """Import the object that an entry point names.

    Raises:
        AttributeError: The module has no such object. The message names the entry point.
    """
    # An AttributeError of the module itself is raised here, without the hint.
    import_module(point.module)
    try:
        return point.load()
    except AttributeError as error:
        # The metadata of an editable install keeps the old entry point when pyproject.toml changes.
        raise AttributeError(
            f"{error}; the installed entry point is `{point.name} = {point.value}`: correct it in pyproject.toml, "
            "and install the package again"
        ) from error


def served_only_by_name() -> list[str]:
    """Return the names of the installed plugins that a server runs only if an option or a table names them."""
    points_by_name = installed_entry_points()
    return [name for name, points in points_by_name.items() if all(point.group == _ONLY_BY_NAME for point in points)]


def check_offered(names: Iterable[str], offered: Mapping[str, object]) -> None:
    """Check that plugins are installed.

    Args:
        names: The names to check.
        offered: The installed plugins by name.

    Raises:
        ConfigError: A plugin is not installed.
    """
    for name in names:
        if name not in offered:
            hint = suggest(name, offered)
            if name in SHIPPED:
                project = f"mcptrio-{name}"
                hint = f"; the distribution {project} has it: in a clone, run `pip install ./plugins/{project}`"
            if Path(f"{name}.py").is_file():
                hint = f"; did you mean the file `{name}.py`?"
            raise ConfigError(f"no plugin {quote_name(name)} is installed{hint}")


def distribution_of(point: EntryPoint) -> tuple[str | None, str | None]:
    """Return the name and the version of the distribution of an entry point; ``None`` for what is unknown."""
    dist = point.dist
    if dist is None:
        return None, None
    metadata = dist.metadata  # read once; `dist.name` and `dist.version` would each read it again
    return metadata["Name"], metadata["Version"]


def import_file(path: Path, name: str | None = None) -> ModuleType:
    """Import a Python file.

    Args:
        name: The name of the module; by default one that no other module has.

    Raises:
        ImportError: The file is not a Python file.
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
        # A later import must not find a module whose execution has failed.
        if not loaded:
            del sys.modules[name]
    return module
