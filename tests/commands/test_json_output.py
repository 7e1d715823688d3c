"""``--json``: one object for each command that prints data, with the keys that the documentation lists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from mcptrio.cli.group import cli
from tests.commands.processes import at_terminal, run
from tests.distributions import one_tool

__all__: list[str] = []

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
PRINTS_NO_DATA = {
    *("run", "serve", "worker", "dev", "shell", "new", "completion", "auth login", "auth logout", "token revoke"),
    *("show", "replay", "top"),
    *("plugins add", "plugins enable", "plugins disable", "plugins install", "plugins uninstall", "host uninstall"),
}
PRINTS_JSON = {"host install", "package server-json"}
"""Commands that print the JSON that they create."""

OWN = f"""{one_tool("own")}
from mcptrio import completion, prompt

@prompt
def ask(mood: str) -> str:
    'Ask.'
    return mood

@completion("prompt", "ask", "mood")
def moods(value: str) -> list[str]:
    return ["good"]
"""


def documented() -> dict[str, list[str]]:
    """Return the keys of each command in the table of the page."""
    table = PAGE.read_text().partition("## JSON\n")[2].partition("```")[0]
    return {
        command: re.findall(r"`(\w+)`", keys)
        for commands, keys in re.findall(r"(?m)^\| (`.*`) \| (.*) \|$", table)
        for command in re.findall(r"`([^`]+)`", commands)
    }


def commands(command: click.Command, *path: str) -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {" ".join(path): command}
    found: dict[str, click.Command] = {}
    for name in command.commands:
        found |= commands(command.commands[name], *path, name)
    return found


def test_every_command_that_prints_data_has_the_option_and_is_documented() -> None:
    commands_by_name = commands(cli)
    able = {
        name for name, command in commands_by_name.items() if any("--json" in param.opts for param in command.params)
    }

    assert able | PRINTS_NO_DATA | PRINTS_JSON == {*commands_by_name} | {"shell"}
    assert {*documented()} - {"lock --check"} == able - {"shell"}


@pytest.mark.parametrize(
    "command",
    [
        ("list", "--plugin", "own.py"),
        ("complete", "--plugin", "own.py", "prompt", "ask", "mood", "g"),
        ("ping", "--plugin", "own.py"),
        ("inspect", "--plugin", "own.py"),
        ("plugins", "list", "--plugin", "own.py"),
        ("plugins", "show", "own.py"),
        ("plugins", "doctor", "own.py"),
        ("lock", "--plugin", "own.py"),
        ("lock", "--check", "--plugin", "own.py"),
        ("token", "new", "bob", "--file", "tokens.json"),
        ("token", "list", "--file", "tokens.json"),
        ("auth", "status"),
        ("ps",),
        ("host", "status", "cursor"),
        ("package", "mcpb", "--plugin", "own.py", "--name", "own", "--author", "Ada"),
    ],
    ids=" ".join,
)
def test_object_has_the_documented_keys(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    env = {"MCPTRIO_CLIENT_CREDENTIALS": str(tmp_path / "kept.json"), "HOME": str(tmp_path)}
    if "--check" in command:
        assert run("lock", "--plugin", "own.py", cwd=tmp_path, env=env).returncode == 0
    if command[:2] == ("token", "list"):
        assert run("token", "new", "ada", "--file", "tokens.json", cwd=tmp_path, env=env).returncode == 0
    result = run(*command, "--json", cwd=tmp_path, env=env)
    keys = documented()[next(name for name in (" ".join(command[:2]), command[0]) if name in documented())]
    [line] = result.stdout.decode().splitlines()
    report: dict[str, Any] = json.loads(line)

    assert [*report] == [key for key in keys if key != "traceback"], result.stderr


def test_object_is_indented_and_printable_at_a_terminal(tmp_path: Path) -> None:
    file = "a\u202eb.json"
    with at_terminal("token", "new", "ada", "--file", file, "--json", cwd=tmp_path) as terminal:
        assert terminal.end() == 0
    piped = run("token", "new", "bob", "--file", file, "--json", cwd=tmp_path).stdout.decode()

    assert '\n  "name": "ada",\n' in terminal.shown
    assert "\u202e" not in terminal.shown.partition("}")[0]
    assert json.loads(piped)["file"] == file
