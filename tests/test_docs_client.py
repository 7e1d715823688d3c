"""The programs of the client guide and of README run unchanged, with the plugins shown there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import Block, blocks

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = [
    block
    for block in blocks("python")
    if block.where.startswith(("docs/client.md", "README.md")) and "mcptrio.connect(" in block.text
]
PLUGINS = {
    block.text.partition("\n")[0].removeprefix("# "): block.text
    for block in blocks("python")
    if block.text.startswith(("# garden.py", "# hello.py"))
}


def test_page_contains_the_expected_programs() -> None:
    assert len(PROGRAMS) >= 6
    assert len(PLUGINS) == 2


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_program_of_the_client_guide_runs(program: Block, tmp_path: Path) -> None:
    for name, text in PLUGINS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "program.py").write_text(program.text)
    # The page calls the installed mcptrio.
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    result = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert (result.returncode, result.stderr) == (0, "")
