"""The programs of the host guide run unchanged, with the tutorial's plugin and the page's ``mcp.json``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from mcptrio.host import HostOptions
from tests.test_readme import Block, blocks

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "host.md").read_text("utf-8")
PROGRAMS = [block for block in blocks("python") if block.where.startswith("docs/host.md")]


def test_page_contains_the_expected_programs() -> None:
    assert len(PROGRAMS) >= 7


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_program_of_the_host_guide_runs(program: Block, tmp_path: Path) -> None:
    [garden] = [b for b in blocks("python") if b.where.startswith("docs/tutorial") and b.text.startswith("# garden.py")]
    [servers] = [b for b in blocks("json") if b.where.startswith("docs/host.md")]
    (tmp_path / "garden.py").write_text(garden.text)
    (tmp_path / "mcp.json").write_text(servers.text)
    (tmp_path / "program.py").write_text(program.text)
    # The page calls the installed mcptrio.
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    result = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=180, check=False
    )

    assert (result.returncode, "Traceback" in result.stderr) == (0, False), result.stderr
    assert result.stdout


def test_every_option_is_documented_with_its_default() -> None:
    shown = dict(re.findall(r"^\| `(\w+)` \| ([\w.]*) ?\|", PAGE[PAGE.index("`HostOptions`") :], re.MULTILINE))
    defaults = {field.name: field.default for field in attrs.fields(HostOptions)}

    assert shown.keys() == defaults.keys()
    for name, default in defaults.items():
        if isinstance(default, bool | int | float):
            assert shown[name] == f"{default:g}" if not isinstance(default, bool) else str(default).lower()
