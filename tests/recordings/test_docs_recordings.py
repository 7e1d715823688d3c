"""docs/recordings.md: its commands, its test and its program run unchanged, in this order and in one folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.processes import run_lines
from tests.processes import WAIT_TIMEOUT, environment
from tests.test_readme import blocks_of

__all__: list[str] = []

BLOCKS = list(
    blocks_of((Path(__file__).resolve().parents[2] / "docs" / "recordings.md").read_text("utf-8"), "docs/recordings.md")
)


def examples() -> list[tuple[str, str]]:
    """Return each command with its output."""
    results = []
    for block in BLOCKS:
        if block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                results.append((command, output))
    return results


def plain(output: str) -> str:
    """Return the lines of an output without its times and the width of its columns."""
    lines = (re.sub(r" +", " ", re.sub(r"\b\d+\.\d+\b", "0.0", line)).strip() for line in output.splitlines())
    return "\n".join(line for line in lines if line)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trip")
    for block in BLOCKS:
        if block.language == "python" and (name := re.match(r"# (\w+\.py)\n", block.text)):
            (folder / name[1]).write_text(block.text)
    return folder


def python(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=WAIT_TIMEOUT,
        check=False,
    )


def test_examples_print_the_documented_output(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    commands = examples()
    marked = "\n".join(f'{command}\necho "$?@@@"' for command, _ in commands).replace("echo $?\n", "echo $last\n")
    script = marked.replace('echo "$?@@@"', 'last=$?; echo "@@@"')
    outputs = run_lines(script, cwd=folder, programs=tmp_path_factory.mktemp("programs")).split("@@@\n")

    for (command, output), printed in zip(commands, outputs, strict=False):
        pattern = re.escape(plain(output)).replace("…", "[\\s\\S]*")
        assert re.fullmatch(pattern, plain(printed)), f"{command}\n{printed}"
    assert len(commands) == 8

    tested = python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_trip.py")
    assert tested.returncode == 0, tested.stdout
    assert python(folder, "fare.py").stdout == "120\n"
