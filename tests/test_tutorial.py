"""The tutorial's plugin, its tests and its commands, taken from the page and run as the page describes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.processes import environment, serving
from tests.test_readme import Block, blocks

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def blocks_of_page(language: str) -> list[Block]:
    return [block for block in blocks(language) if block.where.startswith("docs/tutorial.md")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder ``garden`` with the files that a reader has at the end of the tutorial."""
    folder = tmp_path / "garden"
    folder.mkdir()
    for block in blocks_of_page("python"):
        first = block.text.partition("\n")[0]
        if first.endswith(".py"):
            (folder / first.removeprefix("# ")).write_text(block.text)
    [project] = blocks_of_page("toml")
    (folder / "pyproject.toml").write_text(project.text)
    return folder


def run(folder: Path, command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(PATH=SCRIPTS, PYTEST_ADDOPTS="-p no:cacheprovider -W error", **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("block", [block for block in blocks_of_page("console") if ".py" in block.text], ids=str)
def test_command_prints_the_output_on_the_page(folder: Path, block: Block) -> None:
    command, expected = block.text.removeprefix("$ ").split("\n", 1)
    result = run(folder, command)

    assert (result.stdout or result.stderr) == expected


def test_tests_of_the_page_pass(folder: Path) -> None:
    [block] = [block for block in blocks_of_page("console") if block.text.startswith("$ pytest")]
    command, expected = block.text.removeprefix("$ ").split("\n", 1)
    last = run(folder, command).stdout.splitlines()[-1]

    assert re.fullmatch(re.escape(expected.rstrip()).replace("…", r"[\d.]+s"), last)


def test_installed_package_has_the_names_on_the_page(folder: Path, tmp_path: Path) -> None:
    [block] = [block for block in blocks_of_page("console") if "--plugin garden\n" in block.text]
    command, expected = block.text.removeprefix("$ ").split("\n", 1)
    installed = tmp_path / "installed"
    # As `pip install .` does, but with the build tool of this environment, and into a folder.
    options = "-q --disable-pip-version-check --no-deps --no-index --no-build-isolation"
    built = run(folder, f"{sys.executable} -m pip install {options} --target {installed} .")
    assert built.returncode == 0, built.stderr

    # In another folder, where garden.py cannot be imported by accident.
    assert run(tmp_path, command, PYTHONPATH=str(installed)).stdout == expected


def test_http_commands_of_the_page_answer_its_call_command(folder: Path) -> None:
    lines = [line for block in blocks_of_page("sh") for line in block.text.splitlines()]
    served = [line for line in lines if " --http " in line]
    [call] = [line for line in lines if "http://127.0.0.1:8000/mcp" in line]

    assert [line.split()[1] for line in served] == ["serve", "dev"]
    for line in served:
        # The default port may be in use on this machine.
        command = ["bash", "-c", f"exec {line}"]
        with serving(command=command, cwd=folder, env={"PATH": SCRIPTS, "MCPTRIO_HTTP_PORT": "0"}) as server:
            result = run(folder, call.replace(":8000/", f":{server.port}/"))

            assert (result.stdout, result.stderr) == ("7.0\n", "")


def test_install_command_of_the_page_adds_the_plugin_to_a_host(folder: Path, tmp_path: Path) -> None:
    [command] = re.findall(r"`(mcptrio host install [^`]*)`", (ROOT / "docs" / "tutorial.md").read_text("utf-8"))
    result = run(folder, command, HOME=str(tmp_path))

    assert result.returncode == 0, result.stderr
    assert str(folder / "garden.py") in (tmp_path / ".cursor" / "mcp.json").read_text()


def test_project_of_the_page_is_the_garden_plugin() -> None:
    [project] = blocks_of_page("toml")

    assert tomllib.loads(project.text)["project"]["entry-points"]["mcptrio"] == {"garden": "garden"}


def test_sections_of_the_page_form_the_complete_file(folder: Path) -> None:
    whole = (folder / "garden.py").read_text()
    definitions = [
        definition.strip()
        for block in blocks_of_page("python")
        if not block.text.startswith("# ")
        for definition in re.split(r"\n\n\n", block.text)
        if definition.startswith("@")
    ]

    assert len(definitions) == 6
    assert [each for each in definitions if each not in whole] == []
