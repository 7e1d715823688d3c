"""docs/mounting.md: its program prints the output in its comments, and its options match the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
from attrs import evolve

from mcptrio.cli.server.plugin_server import tables_of
from mcptrio.mounting.tables import MountTable, MountTables
from mcptrio.serve.config import ServeConfig, load_config
from mcptrio.serving import MountOptions
from tests.processes import environment
from tests.test_readme import blocks_of

__all__: list[str] = []

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "mounting.md").read_text("utf-8")
OPTIONS = TEXT[TEXT.index("## Options") :]


def test_program_prints_the_commented_output(tmp_path: Path) -> None:
    garden, program = (block.text for block in blocks_of(TEXT, "docs/mounting.md") if block.language == "python")
    (tmp_path / "garden.py").write_text(garden)
    (tmp_path / "program.py").write_text(program)
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    result = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        env=environment(PATH=scripts),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert (result.returncode, result.stderr) == (0, "")
    commented = {line.partition("  # ")[2] for line in program.splitlines() if "  # " in line}
    assert len(commented) == 4
    assert set(result.stdout.splitlines()) == commented


def rows(text: str) -> set[str]:
    """The names in the first cells of the tables."""
    matches = re.findall(r"^\| ((?:`\w+`(?:, )?)+)(?: \(program only\))? \|", text, re.MULTILINE)
    return {name for row in matches for name in re.findall(r"\w+", row)}


def test_every_option_has_a_row() -> None:
    assert rows(OPTIONS) == {each.name for each in attrs.fields(MountOptions)}


def test_every_key_of_a_mount_has_a_row() -> None:
    [section] = re.findall(r"^## Mounting by configuration$(.*?)^## ", TEXT, re.MULTILINE | re.DOTALL)
    tools = {"list_mounts", "restart_mount"}
    connection = rows(section) - tools
    in_tables = rows(OPTIONS.replace("(program only)", "-"))

    assert not connection & in_tables
    assert connection | in_tables == {each.name for each in attrs.fields(MountTable)}


def test_tables_of_the_page_are_valid(tmp_path: Path) -> None:
    [text] = re.findall(r"```toml\n(\[mount\.files\].*?)```", TEXT, re.DOTALL)
    (tmp_path / "mcptrio.toml").write_text(text)
    read = load_config(tmp_path / "mcptrio.toml")
    tables = tables_of(ServeConfig(read.source, {**read.tables, "plugins": {}}))
    found = evolve(tables, environ={"ISSUES_AUTHORIZATION": "Bearer x"}).of("mount", MountTables)

    assert list(found.servers) == ["files", "issues", "desk"]
    assert found.servers["issues"].headers == {"Authorization": "Bearer x"}


def test_numbers_of_the_page_match_the_code() -> None:
    options = MountOptions()

    assert f"waits `start_timeout` seconds for it ({options.start_timeout:g})" in TEXT
    assert f"waits `ready_timeout` seconds for it ({options.ready_timeout:g})" in TEXT
