"""The testing guide: its files run as described, with the shown output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcptrio.testing import plugin
from tests.test_readme import blocks

__all__: list[str] = []

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "testing.md"


def shown(language: str) -> list[str]:
    return [block.text for block in blocks(language) if block.where.startswith("docs/testing.md")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with all files of the page."""
    for text in shown("python"):
        first = text.partition("\n")[0]
        if first.endswith(".py"):
            (tmp_path / first.removeprefix("# ")).write_text(text)
    return tmp_path


def run(folder: Path, *command: str, status: int = 0) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout


def pytest_in(folder: Path, *options: str, status: int = 0) -> str:
    return run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *options, status=status)


def test_tests_of_the_guide_pass(folder: Path) -> None:
    # Over stdio in one revision only, because each process takes time; test_plugin.py has a test in all of them.
    output = pytest_in(folder, "--mcp-update-snapshots", "-k", "not stdio or 2026")

    # 17 of them in every case, 2 replayed.
    assert "29 passed" in output
    assert (folder / "wire" / "price.txt").read_text() in shown("text")


def test_failures_of_the_guide_print_the_documented_output(folder: Path) -> None:
    order, bakery = folder / "test_order.py", folder / "bakery.py"
    unanswered = re.sub(r"^ *mcp_script\.elicit.*\n", "", order.read_text(), flags=re.MULTILINE)
    assert unanswered != order.read_text()
    order.write_text(unanswered)
    bakery.write_text(bakery.read_text().replace("ctx.once(self._next_number)", "self._next_number()"))
    output = pytest_in(folder, "test_order.py", "test_replay.py", status=1)

    # One of the two replayed runs.
    assert "2 failed, 1 passed" in output
    assert any(each in output for each in shown("text") if each.startswith("the server asked"))
    assert "order 4" in output


def test_guide_example_without_pytest_runs(folder: Path) -> None:
    [text] = [text for text in shown("python") if "trio.run(" in text]

    assert "order 1: 1 of rye" in run(folder, "-c", text)


def test_every_fixture_is_documented() -> None:
    page = PAGE.read_text("utf-8")

    assert [name for name in plugin.__all__ if name.startswith("mcp_") and f"`{name}`" not in page] == []
