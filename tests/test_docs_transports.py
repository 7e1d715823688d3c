"""The guide to transports: its programs run unchanged, and its limits match the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from mcptrio.serve.config import keys
from mcptrio.serving import StreamOptions
from tests.test_readme import Block, blocks

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = [
    block
    for block in blocks("python")
    if block.where.startswith("docs/transports.md") and block.text.endswith("trio.run(main)\n")
]


def test_page_contains_the_expected_programs() -> None:
    assert len(PROGRAMS) >= 3


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_program_of_the_transports_guide_runs(program: Block, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program.text)

    result = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert (result.returncode, result.stderr) == (0, "")
    # The output of the last call shows that it was made.
    assert result.stdout.endswith(("HEY\n", "posted 8 characters\n", "mine\n", "'the server is stopping'\n"))


def test_every_stream_limit_is_documented_with_its_default() -> None:
    stream = {key[1] for key in keys() if key[0] == "stream"}
    bounds = {each.name: each.default for each in attrs.fields(StreamOptions) if each.name != "limits"}
    assert stream == {*bounds, "listen"}
    shown = {name: oct(value) if name == "unix_mode" else f"{value:g}" for name, value in bounds.items()}
    configuration, transports = (
        (ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in ("configuration", "transports")
    )

    for name, default in shown.items():
        assert re.search(rf"^\| `stream\.{name}` \| `?{default}`? \|", configuration, re.MULTILINE), name
        assert re.search(rf"^\| .* \| `?{default}`? \| `stream\.{name}` \| `{name}` \|$", transports, re.MULTILINE), (
            name
        )
    assert "| `stream.listen` |" in configuration
