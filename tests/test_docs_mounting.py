"""docs/mounting.md: its program runs and prints what its comments say, and its options are those of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs

from mcptrio import MountOptions
from tests.processes import environment
from tests.test_readme import blocks_of

__all__: list[str] = []

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "mounting.md").read_text("utf-8")


def test_program_prints_what_its_comments_say(tmp_path: Path) -> None:
    garden, program = (block.text for block in blocks_of(TEXT, "docs/mounting.md") if block.language == "python")
    (tmp_path / "garden.py").write_text(garden)
    (tmp_path / "program.py").write_text(program)
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        env=environment(PATH=scripts),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    said = {line.partition("  # ")[2] for line in program.splitlines() if "  # " in line}
    assert len(said) == 4
    assert set(done.stdout.splitlines()) == said


def test_every_option_has_a_row() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", TEXT[TEXT.index("## Options") :], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"\w+", row)} - {"MountOptions"}

    assert named == {each.name for each in attrs.fields(MountOptions)}


def test_numbers_are_those_of_the_code() -> None:
    options = MountOptions()

    assert f"waits `start_timeout` seconds for it ({options.start_timeout:g})" in TEXT
    assert f"waits `ready_timeout` seconds for it ({options.ready_timeout:g})" in TEXT
