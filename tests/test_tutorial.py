"""The tutorial's plugin, its tests and its commands, taken from the page and run as the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import Block, blocks

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent


def of_the_page(language: str) -> list[Block]:
    return [block for block in blocks(language) if block.where.startswith("docs/tutorial.md")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that a reader has at the end of the tutorial."""
    for block in of_the_page("python"):
        first = block.text.partition("\n")[0]
        if first.endswith(".py"):
            (tmp_path / first.removeprefix("# ")).write_text(block.text)
    return tmp_path


def run(folder: Path, *command: str) -> str:
    """Run a command, and return both of its outputs."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "PYTEST_ADDOPTS": "-p no:cacheprovider -W error"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("block", of_the_page("console"), ids=str)
def test_a_command_prints_what_the_page_shows(folder: Path, block: Block) -> None:
    command, expected = block.text.removeprefix("$ ").split("\n", 1)

    assert re.fullmatch(
        re.escape(expected.rstrip()).replace("…", r"[\d.]+s"), run(folder, *shlex.split(command)).splitlines()[-1]
    )


def test_the_sections_add_up_to_the_whole_file(folder: Path) -> None:
    whole = (folder / "garden.py").read_text()
    definitions = [
        definition.strip()
        for block in of_the_page("python")
        if not block.text.startswith("# ")
        for definition in re.split(r"\n\n\n", block.text)
        if definition.startswith("@")
    ]

    assert len(definitions) == 6
    assert [each for each in definitions if each not in whole] == []
