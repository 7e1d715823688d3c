"""Each setting without an option in the client's commands has a variable or key, which the documentation names."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from mcptrio import Command, Endpoint
from mcptrio.cli import group
from mcptrio.cli.client.client_settings import VARIABLES, ClientVariables, client_settings
from mcptrio.cli.client.targets import TargetOptions, find_target
from mcptrio.errors import ConfigError
from tests.commands.processes import run
from tests.distributions import one_tool

__all__: list[str] = []

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_documentation_lists_each_variable() -> None:
    listed = re.findall(r"(?m)^\| `(MCPTRIO_CLIENT_\w+)` \|", PAGE.read_text())

    assert sorted(listed) == sorted(VARIABLES)
    assert [name for name, _ in group.VARIABLES] == sorted(VARIABLES)


@pytest.mark.parametrize(
    ("name", "text", "setting", "value"),
    [
        ("CREDENTIALS", "keyring", "credentials", "keyring"),
        ("CREDENTIALS", "kept.json", "credentials", "{here}/kept.json"),
        ("INHERIT_ENV", "true", "inherit_env", True),
        ("INPUT", "false", "input", False),
        ("LOG_LEVEL", "off", "log_level", "off"),
        ("ROOTS", f".{os.pathsep}sub", "roots", (Path("{here}"), Path("{here}/sub"))),
        ("TLS_CA", "ca.pem", "tls_ca", Path("{here}/ca.pem")),
        ("TLS_CERT", "ada.pem", "tls_cert", Path("{here}/ada.pem")),
        ("TLS_KEY", "ada.key", "tls_key", Path("{here}/ada.key")),
        ("TRANSPORT", "sse", "transport", "sse"),
    ],
)
def test_variable_sets_its_setting(folder: Path, name: str, text: str, setting: str, value: Any) -> None:
    (folder / "sub").mkdir()
    if isinstance(value, tuple):
        value = tuple(Path(str(each).format(here=folder)) for each in value)
    elif isinstance(value, str | Path):
        value = type(value)(str(value).format(here=folder))
    settings = client_settings({f"MCPTRIO_CLIENT_{name}": text})

    assert getattr(settings, setting) == value
    assert settings != ClientVariables()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "LOG_LVEL",
            "info",
            "MCPTRIO_CLIENT_LOG_LVEL: there is no such setting; did you mean `MCPTRIO_CLIENT_LOG_LEVEL`?",
        ),
        ("LOG_LEVEL", "loud", "MCPTRIO_CLIENT_LOG_LEVEL: expected one of debug, info, .*, off, got 'loud'"),
        ("ROOTS", "missing", "MCPTRIO_CLIENT_ROOTS: expected folders that exist, got '.*missing'"),
        ("INPUT", "perhaps", "MCPTRIO_CLIENT_INPUT: expected true or false, got 'perhaps'"),
        ("TRANSPORT", "pigeon", "MCPTRIO_CLIENT_TRANSPORT: expected one of auto, http, sse, got 'pigeon'"),
    ],
)
def test_invalid_variable_is_refused(folder: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        client_settings({f"MCPTRIO_CLIENT_{name}": text})


def test_variables_apply_only_to_targets_that_have_the_setting(folder: Path) -> None:
    settings = ClientVariables(inherit_env=True, transport="sse", tls_ca="missing.pem")

    command = find_target(TargetOptions(target="server", settings=settings)).target
    url = find_target(TargetOptions(target="http://localhost/mcp", settings=settings)).target
    with pytest.raises(ConfigError, match=r"missing\.pem: expected certificates in PEM"):
        find_target(TargetOptions(target="https://localhost/mcp", settings=settings))

    assert isinstance(command, Command)
    assert command.inherit_env
    assert isinstance(url, Endpoint)
    assert (url.transport, url.tls) == ("sse", None)


def test_file_entry_sets_the_folder_of_a_command_and_the_transport_of_a_url(folder: Path) -> None:
    entries = {"a": {"command": "x", "cwd": "sub", "env": {"A": "1"}}, "b": {"url": "https://a.b/mcp", "type": "sse"}}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": entries}))

    command = find_target(TargetOptions(target="servers.json#a")).target
    url = find_target(TargetOptions(target="servers.json#b")).target

    assert isinstance(command, Command)
    assert command.cwd == folder / "sub"
    assert isinstance(url, Endpoint)
    assert url.transport == "sse"


def test_variables_name_the_configuration_and_its_profile(folder: Path) -> None:
    (folder / "own.py").write_text(one_tool("own"))
    (folder / "other.toml").write_text(
        '[auth]\ntokens = "a.json"\n[server]\nname = "other"\n'
        '[profiles.team]\nserver.name = "team"\nauth.tokens = "b.json"\n'
    )
    env = {"MCPTRIO_CONFIG": "other.toml", "MCPTRIO_PROFILE": "team"}
    names = [
        json.loads(run("inspect", "--plugin", "own.py", "--json", cwd=folder, env=given).stdout)["server"]["name"]
        for given in ({"MCPTRIO_CONFIG": "other.toml"}, env)
    ]
    made = run("token", "new", "ada", cwd=folder, env=env)

    assert names == ["other", "team"]
    assert made.returncode == 0, made.stderr
    assert ((folder / "a.json").exists(), (folder / "b.json").exists()) == (False, True)


def test_command_inherits_the_environment_if_configured(folder: Path) -> None:
    (folder / "own.py").write_text(
        "import os\nfrom mcptrio import tool\n\n@tool\ndef mood() -> str:\n    'Say it.'\n"
        "    return os.environ.get('MOOD', 'none')\n"
    )
    server = ("--", sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "own.py")
    messages = [
        run("call", "mood", *server, cwd=folder, env={"MOOD": "good", **given}).stdout
        for given in ({}, {"MCPTRIO_CLIENT_INHERIT_ENV": "true"})
    ]

    assert messages == [b"none\n", b"good\n"]
