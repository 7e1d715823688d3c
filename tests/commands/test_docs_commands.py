"""docs/commands.md: its examples run unchanged with the shown output, and no option is missing.

In a ``console`` block, ``$`` begins a command, and the lines below are its output and its standard error, in order;
``…`` matches anything.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from attrs import frozen

from mcptrio.cli.client.exit_codes import EXIT_CODES, ExitCode
from mcptrio.cli.group import COMMANDS, cli
from tests.commands.processes import run_lines
from tests.test_readme import blocks_of

__all__: list[str] = []

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text("utf-8")
BLOCKS = list(blocks_of(TEXT, "docs/commands.md"))
SERVING = ("dev", "serve", "plugins", "worker")


@frozen
class Example:
    command: str
    output: str
    where: str

    def __str__(self) -> str:
        return f"{self.where} {self.command[:40]}"


def examples() -> list[list[Example]]:
    """Return the commands of each block, which run in one folder."""
    results = []
    for block in BLOCKS:
        if block.language == "console":
            parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
            cut = [part.partition("\n") for part in parts]
            results.append([Example(command, output, block.where) for command, _, output in cut])
    return results


@pytest.mark.parametrize("block", examples(), ids=lambda block: str(block[0]))
def test_examples_print_the_documented_output(
    block: list[Example], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for each in BLOCKS:
        if each.language == "python" and (name := re.match(r"# (\w+\.py)\n", each.text)):
            (tmp_path / name[1]).write_text(each.text)
    # One shell for all of them, because $? is that of the previous command.
    marked = "\n".join(f'{example.command}\necho "$?@@@"' for example in block).replace("echo $?\n", "echo $last\n")
    script = marked.replace('echo "$?@@@"', 'last=$?; echo "@@@"')
    outputs = run_lines(script, cwd=tmp_path, programs=tmp_path_factory.mktemp("programs")).split("@@@\n")

    for example, output in zip(block, outputs, strict=False):
        pattern = re.escape(example.output.rstrip("\n")).replace("…", r"[\s\S]*")
        shown = "\n".join(line for line in output.splitlines() if line)
        assert re.fullmatch(pattern, shown), f"{example}\n{output}"


def test_documentation_has_examples() -> None:
    assert sum(map(len, examples())) > 15


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in SERVING])
def test_every_option_is_documented(name: str) -> None:
    command = cli.commands[name]
    options = [
        option for parameter in command.params if isinstance(parameter, click.Option) for option in parameter.opts
    ]

    assert [option for option in options if f"`{option}" not in TEXT] == []
    assert re.search(rf"^## .*\b{name}\b", TEXT, re.MULTILINE)


def test_every_exit_code_is_documented_and_in_the_help() -> None:
    rows = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    in_help = {int(code) for code in re.findall(r"\b(\d+) ", EXIT_CODES)}

    assert rows == in_help == set(ExitCode)
