"""Files and functions are short enough to be read completely."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mcptrio"
FILES = [
    path
    for path in sorted([*PACKAGE.rglob("*.py"), *ROOT.glob("plugins/*/mcptrio_*/**/*.py")])
    if "templates" not in path.parts
]

TESTS = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")])

LINES = 450
"""Lines of a file."""
TEST_LINES = 600
"""Lines of a file of tests."""
STATEMENT_LINES = 60
"""Lines of a function, without its docstring."""

LONGER: dict[str, int] = {}
"""Longer files and functions, with their limits. Remove an entry that is no longer needed."""


def lengths(path: Path) -> Iterator[tuple[str, int, int]]:
    """Each file and function with its length and its bound."""
    name = path.relative_to(ROOT).as_posix()
    source = path.read_text()
    yield name, len(source.splitlines()), LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0], node.end_lineno or node.lineno
            has_docstring = ast.get_docstring(node) is not None
            length = last - node.lineno + 1 - (has_docstring * ((first.end_lineno or 0) - first.lineno + 1))
            yield f"{name}: {node.name}", length, STATEMENT_LINES


def test_files_and_functions_are_within_their_length_limits() -> None:
    found = {
        name: length for path in FILES for name, length, bound in lengths(path) if length > LONGER.get(name, bound)
    }

    assert not found


def test_test_files_are_within_their_length_limit() -> None:
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in TESTS}

    assert not {name: length for name, length in lengths.items() if length > TEST_LINES}


CORE_FILES = {
    "one HTTP connection": ("http/engine/connection.py", "http/engine/exchange.py"),
    "a client's session": ("client/supervisor.py", "client/session.py", "client/negotiator.py"),
    "a request's life": ("runtime/request_lifecycle.py", "runtime/request.py", "runtime/session.py"),
}
"""Files that are read together."""
CORE_LINES = 900


@pytest.mark.parametrize("subject", CORE_FILES)
def test_core_files_are_within_their_total_length(subject: str) -> None:
    assert sum(len((PACKAGE / name).read_text().splitlines()) for name in CORE_FILES[subject]) <= CORE_LINES
