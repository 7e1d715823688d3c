"""The programs, and the Python blocks of README and docs, pass ``mypy --strict``: one run each, with one cache.

A block whose first line is ``# name.py`` is a separate module, which later blocks of its page may import.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_readme import Block, blocks
from tests.typing.test_programs import PROGRAMS, check

__all__: list[str] = []


def page_of(block: Block) -> str:
    return block.where.rpartition(":")[0]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of mypy's cache for mcptrio, shared by the runs."""
    return tmp_path_factory.mktemp("mypy")


def test_programs_pass_mypy_strict(cache: Path) -> None:
    output = check(*PROGRAMS, cache=cache)

    assert "Success: no issues found" in output, output


@pytest.fixture(scope="module")
def errors(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The errors of each page, by one run over all blocks."""
    folder = tmp_path_factory.mktemp("blocks")
    files: dict[str, str] = {}
    modules: dict[str, str] = {}
    for number, block in enumerate(blocks("python")):
        named = re.match(r"# (\w+)\.py\b", block.text)
        # Two pages may show modules of one name; only the first can be imported by it.
        name = named[1] if named is not None and modules.setdefault(named[1], block.where) == block.where else None
        file = folder / f"{name or f'block{number}'}.py"
        file.write_text(block.text, "utf-8")
        files[file.name] = block.where
    output = check(*sorted(folder.glob("*.py")), cache=cache, path=folder)
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        match = re.match(r"(?:.*/)?(\w+\.py):(\d+): error: (.*)", line)
        if match is not None:
            page, _, at = files[match[1]].rpartition(":")
            found.setdefault(page, []).append(f"{page}:{int(at) + int(match[2])}: {match[3]}")
    assert f"checked {len(files)} source files" in output or f"in {len(files)} source files" in output, output
    return found


@pytest.mark.parametrize("page", sorted({page_of(block) for block in blocks("python")}))
def test_blocks_of_a_page_pass_mypy_strict(page: str, errors: dict[str, list[str]]) -> None:
    assert errors.get(page, []) == []
