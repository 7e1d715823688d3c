"""The tutorial's plugin and its test, taken from the page and run as the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import blocks

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What somebody has in front of them at the end of the tutorial."""
    for block in blocks("python"):
        first = block.text.partition("\n")[0]
        if block.where.startswith("docs/tutorial.md") and first.endswith(".py"):
            (tmp_path / first.removeprefix("# ")).write_text(block.text)
    return tmp_path


def run(folder: Path, *command: str) -> str:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_test_passes(folder: Path) -> None:
    assert "2 passed" in run(folder, "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")


def test_the_command_line_shows_what_it_says(folder: Path) -> None:
    shown = run(folder, "mcptrio", "plugins", "--plugin", "garden.py")

    assert "3 tools, 1 resource, 1 prompt" in shown
