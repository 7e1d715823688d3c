"""The package uses no private name of a library, which a release of the library may change without notice.

A private name counts as ours if a class or a module of the package defines or assigns it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

__all__: list[str] = []

PACKAGE = Path(__file__).resolve().parent.parent / "mcptrio"

KNOWN = {
    "ground/guarded.py": {"_activate_cancel_status", "_cancel_status", "_child_nurseries"},
}
"""By file: Trio has no public way to close a scope that its owner has left open."""

DOCUMENTED = {"_exit", "_current_frames", "_field_defaults"}
"""Names of the standard library with an underscore that are documented: in ``os``, ``sys`` and named tuples."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def own(tree: ast.Module) -> Iterator[str]:
    """The private names that a module defines, or assigns on ``self`` or ``cls``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from [node.attr] if ast.unparse(node.value) in ("self", "cls") else []


def foreign(tree: ast.Module, ours: set[str]) -> Iterator[str]:
    """The private names of libraries that a module imports or reads."""
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield from filter(is_private, each.name.split("."))
                imported.add((each.asname or each.name).split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("mcptrio"):
            yield from (each for each in node.module.split(".") if is_private(each) and each != "_typeshed")
            yield from (each.name for each in node.names if is_private(each.name))
            imported.update(each.asname or each.name for each in node.names)
    imported -= {"mcptrio"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in DOCUMENTED:
            root: ast.expr = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if node.attr not in ours or (isinstance(root, ast.Name) and root.id in imported):
                yield node.attr


def test_package_uses_no_private_name_of_a_library() -> None:
    trees = {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text())
        for path in PACKAGE.rglob("*.py")
        if "templates" not in path.parts
    }
    ours = {name for tree in trees.values() for name in own(tree)}

    found = {file: set(foreign(tree, ours)) for file, tree in trees.items()}

    assert {file: names for file, names in found.items() if names} == KNOWN


def test_private_names_are_found() -> None:
    source = "import trio\nfrom trio._core import _run\ntrio._x.y\ntask._cancel_status\nself._own = 1\nself._own\n"
    tree = ast.parse(source)

    assert set(foreign(tree, set(own(tree)))) == {"_core", "_run", "_x", "_cancel_status"}
