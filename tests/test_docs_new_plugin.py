"""docs/plugins.md: its commands, such as ``mcptrio new`` and ``mcptrio dev``, run unchanged.

As in docs/commands.md, ``$`` begins a command, its output follows, and ``…`` matches anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment
from tests.test_readme import Block, blocks_of

__all__: list[str] = []

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "plugins.md").read_text("utf-8")
BLOCKS = list(blocks_of(TEXT, "docs/plugins.md"))
EXAMPLES = [block for block in BLOCKS if block.language == "console"]
FILES = {
    match[1]: block.text
    for block in BLOCKS
    if block.language == "python" and (match := re.match(r"# (\w+\.py)\n", block.text))
}
"""The programs of the page that have a file name."""


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_examples_print_the_documented_output(block: Block, tmp_path: Path) -> None:
    commands = re.findall(r"^\$ (.*)$", block.text, re.MULTILINE)
    # pip would install into the environment of the tests.
    assert not any(each.startswith("pip ") for each in commands)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-c", "exec 2>&1\n" + "\n".join(commands)],
        cwd=tmp_path,
        env=environment(PATH=scripts, PYTEST_ADDOPTS="-p no:cacheprovider"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    expected = "\n".join(line for line in block.text.splitlines() if not line.startswith("$ "))

    assert re.fullmatch(re.escape(expected).replace("…", r"[\s\S]*"), result.stdout.rstrip("\n")), result.stdout


def test_page_contains_examples_of_new_and_dev() -> None:
    shown = " ".join(block.text for block in EXAMPLES)

    assert "$ mcptrio new " in shown
    assert "mcptrio dev " in shown


def test_tables_name_every_written_file() -> None:
    templates = Path(__file__).resolve().parents[1] / "mcptrio" / "cli" / "new" / "templates" / "plugin"
    part = TEXT.split("## Start with a package")[1].split("\n## ")[0]
    for file in templates.rglob("*.in"):
        name = file.name.removesuffix(".in").replace("dot-", ".")
        if name not in (".gitignore", "README.md", "py.typed") and "tests" not in file.parts:
            assert name in part, name
