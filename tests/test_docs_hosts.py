"""docs/hosts.md: its examples run unchanged, in a temporary home; no host application and no option is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mcptrio.cli.group import cli
from mcptrio.cli.install.hosts import HOSTS
from tests.distributions import one_tool
from tests.processes import environment
from tests.test_readme import blocks_of

__all__: list[str] = []

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "hosts.md").read_text("utf-8")
EXAMPLES = [block for block in blocks_of(TEXT, "docs/hosts.md") if block.language == "console"]


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.where)
def test_examples_print_the_documented_output(block: object, tmp_path: Path) -> None:
    text: str = block.text  # type: ignore[attr-defined]
    commands = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    moved = dict.fromkeys(("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"), "")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "notes.py").write_text(one_tool("note"))
    result = subprocess.run(
        ["bash", "-c", "exec 2>&1\n" + "\n".join(commands)],
        cwd=tmp_path / "project",
        env=environment(PATH=scripts, HOME=str(tmp_path), **moved),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    expected = "\n".join(line for line in text.splitlines() if not line.startswith("$ "))

    assert re.fullmatch(re.escape(expected).replace("…", ".*"), result.stdout.rstrip("\n")), result.stdout


def test_page_contains_the_expected_examples() -> None:
    assert len(EXAMPLES) == 2


def test_every_host_application_has_a_row() -> None:
    assert set(re.findall(r"^\| `([a-z][a-z-]*)` \|", TEXT, re.MULTILINE)) == {*HOSTS, "all"}


@pytest.mark.parametrize("group", ["host", "package"])
def test_every_option_is_documented(group: str) -> None:
    found = cli.commands[group]
    assert isinstance(found, click.Group)
    for command in found.commands.values():
        options = [option for each in command.params if isinstance(each, click.Option) for option in each.opts]

        assert [option for option in options if f"`{option}" not in TEXT] == [], command.name
        assert re.search(rf"\b{command.name}\b", TEXT)
