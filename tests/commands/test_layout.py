"""The layout of the output: at terminals of three widths, without colours, and in a pipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands.processes import at_terminal, run

__all__: list[str] = []

LONG = '''
from mcptrio import tool


@tool
def measure(where: str) -> str:
    """Measure the temperature of the water at a place, and return it in degrees with the depth and the hour."""
    return where
'''


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    (tmp_path / "water.py").write_text(LONG)
    return "--plugin=water.py"


@pytest.mark.parametrize("width", [46, 80, 140])
@pytest.mark.parametrize("command", [["list"], ["inspect"], ["plugins", "list"], ["plugins", "doctor"], ["lock"]])
def test_lines_fit_the_terminal_and_words_stay_whole(
    tmp_path: Path, plugin: str, command: list[str], width: int
) -> None:
    named = "water.py" if command[-1] == "doctor" else plugin
    with at_terminal(*command, named, cwd=tmp_path, columns=width) as terminal:
        assert terminal.end() == 0

    lines = terminal.shown.splitlines()
    assert max(map(len, lines)) <= width
    if command[0] in ("list", "inspect"):
        words = " ".join(terminal.shown.split())
        assert "Measure the temperature of the water at a place, and return it in degrees with the depth" in words


def test_wrapped_error_has_a_red_label(tmp_path: Path) -> None:
    with at_terminal("call", "--plugin", "nowhere.py", "tool", cwd=tmp_path, columns=46) as terminal:
        assert terminal.end() == 2

    assert b"\x1b[31;1mmcptrio: \x1b[0m" in terminal.raw
    assert max(len(line) for line in terminal.shown.splitlines() if " " in line.strip()) <= 46


def test_plugin_details_fit_the_terminal_width(tmp_path: Path, plugin: str) -> None:
    with at_terminal("plugins", "show", "water.py", cwd=tmp_path, columns=46) as terminal:
        assert terminal.end() == 0

    assert max(map(len, terminal.shown.splitlines())) <= 46
    assert "Measure the temperature of the water at a place" in " ".join(terminal.shown.split())


def test_unknown_option_error_has_a_red_label_and_is_wrapped(tmp_path: Path) -> None:
    with at_terminal("list", "--an-option-that-nobody-has", "x", cwd=tmp_path, columns=46) as terminal:
        assert terminal.end() == 2
    piped = run("list", "--an-option-that-nobody-has", "x", cwd=tmp_path).stderr.decode()

    assert b"\x1b[31;1mError: \x1b[0m" in terminal.raw
    assert max(len(line) for line in terminal.shown.splitlines() if "Error" in line or line.startswith("  ")) <= 46
    assert piped.splitlines()[-1].startswith(
        "Error: No such option '--an-option-that-nobody-has'. `mcptrio list --help`"
    )


def test_configuration_error_is_wrapped(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text("[server]\nan_unknown_key_of_the_table = 1\n")
    with at_terminal("plugins", "list", cwd=tmp_path, columns=46) as terminal:
        assert terminal.end() == 2

    assert b"\x1b[31;1mmcptrio: \x1b[0m" in terminal.raw
    assert "an_unknown_key_of_the_table" in terminal.shown


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_output_has_no_colours_if_disabled(tmp_path: Path, plugin: str, env: dict[str, str]) -> None:
    with at_terminal("plugins", "list", plugin, cwd=tmp_path, env=env) as terminal:
        assert terminal.end() == 0

    assert b"\x1b[" not in terminal.raw
    assert "water" in terminal.shown


def test_output_in_a_pipe_is_neither_wrapped_nor_shortened(tmp_path: Path, plugin: str) -> None:
    table = run("plugins", "list", plugin, cwd=tmp_path)
    inspected = run("inspect", plugin, cwd=tmp_path).stdout.decode()

    assert table.stdout.splitlines()[0].split()[-2:] == [b"IMPORT", b"CONTRIBUTES"]
    assert b"\x1b" not in table.stdout
    assert re.search(rb"water .* 1 tool\n", table.stdout)
    assert "return it in degrees with the depth and the hour.\n" in inspected


def test_omitted_columns_are_named(tmp_path: Path, plugin: str) -> None:
    with at_terminal("plugins", "list", plugin, cwd=tmp_path, columns=46) as terminal:
        assert terminal.end() == 0

    assert re.search(r"columns left out: .*CONTRIBUTES", " ".join(terminal.shown.split()))
