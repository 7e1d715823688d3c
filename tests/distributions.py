"""Installed distributions with entry points, made without pip.

``importlib.metadata`` reads only the files that an installer leaves: a ``.dist-info`` folder next to the modules.
Module names are unique in a test run, because an imported module stays imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["install", "one_tool"]


def install(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    modules: Mapping[str, str],
    groups: Mapping[str, Mapping[str, str]] | None = None,
    **entries: str,
) -> Path:
    """Install a distribution into a folder that is, or will be, on the path.

    Args:
        modules: Name to source; ``package/module`` for one within a package.
        groups: Other groups of entry points than ``mcptrio``.
        entries: Plugin name to entry point.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    text = ""
    for group, points in {"mcptrio": entries, **(groups or {})}.items():
        text += f"[{group}]\n" + "".join(f"{name} = {point}\n" for name, point in points.items())
    (info / "entry_points.txt").write_text(text)
    for module, source in modules.items():
        path = folder / f"{module}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    return folder


def one_tool(name: str, answer: str = "done") -> str:
    """The source of a plugin with one tool."""
    return f'''
from mcptrio import tool

@tool
async def {name}() -> str:
    """Return a fixed answer."""
    return {answer!r}
'''
