"""TARGET: each notation of a server, and the errors of invalid ones."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from mcptrio import Command, Endpoint
from mcptrio.cli.client.client_settings import ClientVariables
from mcptrio.cli.client.targets import FoundTarget, TargetOptions, find_target
from mcptrio.errors import ConfigError
from tests.commands.processes import PLUGIN, run, with_plugin
from tests.processes import serving

__all__: list[str] = []

SERVE = (sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(PLUGIN))
FILE = {
    "mcpServers": {
        "local": {"command": sys.executable, "args": ["-m", "x"], "env": {"A": "1"}},
        "remote": {"url": "https://example.com/mcp", "headers": {"X-A": "1"}},
        "wrong": {"command": 5},
        "python3": {"command": "x"},
    }
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def find(target: str | None = None, **options: Any) -> FoundTarget:
    return find_target(TargetOptions(target=target, **options))


# Each notation, run


@pytest.mark.parametrize(
    "way",
    [
        ("ping", "--", *SERVE),
        ("ping", shlex.join(SERVE)),
        ("ping", "servers.json#mine"),
        ("ping", "--count", "1", "servers.json"),
        with_plugin("ping"),
        ("ping", f"--plugin={PLUGIN}"),
        ("ping", "--plugin", "everything"),
    ],
    ids=["after --", "one argument", "file#name", "file with one", "plugin file", "--plugin=", "installed"],
)
def test_server_is_reached_in_each_notation(folder: Path, way: tuple[str, ...]) -> None:
    entry = {"command": SERVE[0], "args": SERVE[1:]}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": {"mine": entry}}))
    result = run(*way, cwd=folder)

    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.endswith(b" ms\n")


def test_server_name_is_found_in_a_local_file(folder: Path) -> None:
    (folder / ".vscode").mkdir()
    entry = {"command": SERVE[0], "args": SERVE[1:]}
    (folder / ".vscode" / "mcp.json").write_text(json.dumps({"servers": {"mine": entry}}))
    result = run("ping", "mine", cwd=folder)

    assert result.returncode == 0
    assert result.stderr == b"mine is the server of this name in .vscode/mcp.json\n"


@pytest.mark.parametrize("transport", ["auto", "http"])
def test_url_is_reached_over_each_transport(folder: Path, transport: str) -> None:
    with serving("--http", "--port=0", "--plugin", str(PLUGIN), cwd=folder) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        result = run("call", url, "weather", cwd=folder, env={"MCPTRIO_CLIENT_TRANSPORT": transport})

    assert (result.returncode, json.loads(result.stdout)) == (0, {"degrees": 21.5, "sky": "blue"})


# The value of each notation


def test_command_gets_its_environment_options(folder: Path) -> None:
    found = find("npx -y 'a server'", env=("A=1", "B=x=y"), settings=ClientVariables(inherit_env=True))

    assert found.target == Command(args=("npx", "-y", "a server"), env={"A": "1", "B": "x=y"}, inherit_env=True)


def test_secret_values_are_read_and_not_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "from the environment")
    (folder / "secret").write_text("from a file\n")
    found = find("https://example.com/mcp", headers=("A=@secret", "B=$SECRET", "C=$$x", "D=@@x", "E: a=b", "F=a: b"))

    assert isinstance(found.target, Endpoint)
    assert found.target.headers == {
        "A": "from a file",
        "B": "from the environment",
        "C": "$x",
        "D": "@x",
        "E": "a=b",
        "F": "a: b",
    }
    assert "secret" not in repr(found)
    assert "environment" not in repr(found)


def test_target_name_omits_url_credentials_and_query() -> None:
    assert find("https://user:secret@example.com/mcp?key=secret").name == "example.com/mcp"


def test_options_are_merged_into_a_file_entry(folder: Path) -> None:
    (folder / "servers.json").write_text(json.dumps(FILE))
    local = find("servers.json#local", env=("B=2",)).target
    remote = find("servers.json#remote", headers=("X-B=2",), settings=ClientVariables(transport="sse")).target

    assert isinstance(local, Command)
    assert (local.args, local.env) == ((sys.executable, "-m", "x"), {"A": "1", "B": "2"})
    assert isinstance(remote, Endpoint)
    assert (remote.headers, remote.transport) == ({"X-A": "1", "X-B": "2"}, "sse")


def test_command_with_a_file_as_last_argument_is_a_command(folder: Path) -> None:
    assert find("server --config a.json").target == Command(args=("server", "--config", "a.json"))


def test_invalid_file_entry_does_not_affect_the_others(folder: Path) -> None:
    (folder / "mcp.json").write_text(json.dumps(FILE))

    assert isinstance(find("local").target, Command)


# Invalid targets


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("", {}, "TARGET: expected a URL, a command, the name of a server or --plugin, got nothing"),
        ("a 'b", {}, 'TARGET: expected a command, got "a \'b": No closing quotation'),
        ("servers.json#lokal", {}, "expected the name of a server (local, remote, wrong, python3), got lokal"),
        ("servers.json#wrong", {}, "servers.json:1: mcpServers.wrong.command: expected"),
        ("missing.json#x", {}, "missing.json: cannot be read: No such file or directory"),
        (
            "script.py",
            {},
            "TARGET: script.py is a file; use --plugin script.py for a plugin, or -- python script.py for a server",
        ),
        ("server", {"headers": ("A=1",)}, "--header: expected a URL as TARGET, got a command"),
        ("https://a.b", {"env": ("A=1",)}, "--env: expected a command as TARGET, got a URL"),
        ("https://a.b", {"headers": ("secret",)}, "--header: expected NAME=VALUE, got something else"),
        ("https://a.b", {"headers": ("=secret",)}, "--header: expected NAME=VALUE, got something else"),
        ("https://a.b", {"headers": ("A=$MISSING",)}, "--header A: the environment has no variable MISSING"),
        ("https://a.b", {"headers": ("A=@missing",)}, "--header A: missing: cannot be read: No such file or directory"),
        ("servers.json#remote", {"env": ("A=1",)}, "--env: expected a command as TARGET, got a URL"),
        ("servers.json#local", {"headers": ("A=1",)}, "--header: expected a URL as TARGET, got a command"),
        ("", {"plugins": ("missing.py",)}, "--plugin: no such file: missing.py"),
        (
            "",
            {"plugins": ("x.py",), "headers": ("A=1",)},
            "--header: cannot be used with --plugin, which serves plugins in this process",
        ),
    ],
)
def test_invalid_target_is_refused(folder: Path, target: str, options: dict[str, Any], message: str) -> None:
    (folder / "servers.json").write_text(json.dumps(FILE))
    (folder / "script.py").write_text("")
    with pytest.raises(ConfigError) as refused:
        find(target, **options)

    assert message in str(refused.value)


def test_name_of_a_server_and_a_program_is_ambiguous(folder: Path) -> None:
    """A folder of another user may not replace a program with its own server."""
    (folder / ".mcp.json").write_text(json.dumps(FILE))
    with pytest.raises(ConfigError) as refused:
        find("python3")

    report = "python3 is a server of .mcp.json and a program"
    assert str(refused.value) == f"TARGET: {report}; write .mcp.json#python3, or -- python3"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("list",), b"missing TARGET: pass a URL"),
        (("list", "--"), b"expected a command after --, got nothing"),
        (("call", "x"), b"missing TOOL: pass the name of a tool"),
        (("list", "x", "tolls"), b"expected one of tools, resources, templates, prompts, got 'tolls'"),
        (("list", "x", "--revision", "2024"), b"--revision: expected one of 2024-11-05, "),
        (("list", "x", "--timeout", "nan"), b"expected a number of seconds above 0, got 'nan'"),
        (("list", "x", "--timeout", "0"), b"--timeout: expected a number of seconds above 0, got '0'"),
        (("list", "https://a.b", "--env", "A=1"), b"mcptrio: --env: expected a command as TARGET, got a URL\n"),
    ],
)
def test_invalid_usage_exits_with_2(folder: Path, args: tuple[str, ...], message: bytes) -> None:
    result = run(*args, cwd=folder)

    assert (result.returncode, result.stdout) == (2, b"")
    assert message in result.stderr
