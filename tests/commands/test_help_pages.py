"""Help at a terminal and in a pipe: its sections, its width and its colours; and suggestions for a wrong name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mcptrio.cli.group import COMMANDS, SECTIONS, cli
from mcptrio.cli.help_pages import CLICommand, CLIGroup
from tests.commands.processes import at_terminal, run, with_plugin

__all__: list[str] = []

TOOL = """
from mcptrio import tool

@tool
def add(count: int = 1) -> None:
    '''Add.

    Args:
        count: How many.
    '''
"""


def tree(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Return a command and all commands below it, by the words that call each."""
    yield path, command
    if isinstance(command, click.Group):
        for name in command.commands:
            yield from tree(command.commands[name], *path, name)


ALL = {" ".join(path): command for path, command in tree(cli)}


def test_each_command_is_in_one_section() -> None:
    named = [name for names in SECTIONS.values() for name in names]

    assert sorted(named) == sorted(COMMANDS)


@pytest.mark.parametrize("path", ALL)
def test_sections_of_a_command_name_its_options(path: str) -> None:
    command = ALL[path]
    assert isinstance(command, CLICommand | CLIGroup)
    if isinstance(command, CLICommand):
        named = [name for names in command.sections.values() for name in names]
        assert set(named) <= {param.name for param in command.params}
        assert len(named) == len(set(named))


@pytest.mark.parametrize("width", [46, 80, 140])
@pytest.mark.parametrize("path", ["", "plugins", "call", "serve", "auth login", "package mcpb"])
def test_help_fits_the_terminal_and_is_coloured(path: str, width: int, tmp_path: Path) -> None:
    with at_terminal(*path.split(), "--help", cwd=tmp_path, columns=width) as terminal:
        assert terminal.end() == 0
    lines = terminal.shown.splitlines()

    assert max(map(len, lines)) <= min(width, 100)
    assert max(map(len, lines)) > 0.75 * min(width, 100)
    assert b"\x1b[32m\x1b[1mUsage:\x1b[0m" in terminal.raw
    assert b"\x1b[36m\x1b[1m-h, --help\x1b[0m" in terminal.raw


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_help_has_no_colours_if_disabled(env: dict[str, str], tmp_path: Path) -> None:
    with at_terminal("token", "--help", cwd=tmp_path, env=env) as terminal:
        assert terminal.end() == 0

    assert b"Usage: mcptrio token" in terminal.raw
    assert b"\x1b" not in terminal.raw


def test_help_in_a_pipe_is_plain(tmp_path: Path) -> None:
    for path, command in ALL.items():
        result = run(*path.split(), "--help", cwd=tmp_path, env={"COLUMNS": "80"})
        text = result.stdout.decode()

        assert (result.returncode, result.stderr) == (0, b""), path
        assert "\x1b" not in text
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                assert f"  {param.opts[0]}" in text, path


@pytest.mark.parametrize("path", ["list", "call", "tasks", "task", "auth login"])
def test_help_names_the_variables_in_two_lines(path: str, tmp_path: Path) -> None:
    text = run(*path.split(), "--help", cwd=tmp_path, env={"COLUMNS": "80"}).stdout.decode()
    [found] = [part for part in text.split("\n\n") if "MCPTRIO_CLIENT_" in part]

    assert found.startswith("Environment: MCPTRIO_CLIENT_… with CREDENTIALS, ")
    assert found.endswith("`mcptrio --help` describes them.")
    assert len(found.splitlines()) == 2


def test_help_of_a_tool_is_coloured_at_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(TOOL)
    with at_terminal("call", "--plugin", "own.py", "add", "--help", cwd=tmp_path) as terminal:
        assert terminal.end() == 0
    piped = run("call", "--plugin", "own.py", "add", "--help", cwd=tmp_path).stdout

    assert "--count integer  How many. [default: 1]" in " ".join(terminal.shown.split("\n"))
    assert b"\x1b[36m\x1b[1m--count\x1b[0m\x1b[36m integer\x1b[0m" in terminal.raw
    assert b"\x1b" not in piped


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("cal",), "Did you mean 'call'?"),
        (("plugins", "shwo"), "Did you mean 'show'?"),
        (("auth", "lgin"), "Did you mean 'login'?"),
        (("serve", "--prot", "0"), "'--port'"),
        (("list", "x", "--revison", "3"), "'--revision'"),
        (("plugins", "doctor", "--jsn"), "'--json'"),
        (("host", "list"), "no command list; mcptrio host has install, uninstall, status"),
        (("list",), "missing TARGET: pass a URL, a command, the name of a server in mcp.json, or --plugin FILE.py"),
        (with_plugin("call"), "missing TOOL: pass the name of a tool; `mcptrio list` shows them"),
        (("garden.py",), "no command garden.py: to serve a plugin, run `mcptrio serve --http --plugin garden.py`"),
        (("list", "x", "--insecure"), "`mcptrio list --help` lists the variables of settings without an option."),
    ],
)
def test_nearest_name_is_suggested(args: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = run(*args, cwd=tmp_path)

    assert (result.returncode, result.stdout) == (2, b"")
    assert message in result.stderr.decode()


@pytest.mark.parametrize("group", [(), ("host",)], ids=["mcptrio", "mcptrio host"])
def test_group_without_a_command_shows_its_help(group: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*group, cwd=tmp_path)

    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr == run(*group, "--help", cwd=tmp_path).stdout
