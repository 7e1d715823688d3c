"""The location of each host's configuration, on each platform; and whether a host is found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

from mcptrio.cli.install.hosts import HOSTS, find_host
from mcptrio.cli.install.machine import Machine
from mcptrio.errors import ConfigError

__all__: list[str] = []

HOME = Path("/home/ada")
PLACES = {
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "claude-code": (".claude.json",) * 3,
    "cursor": (".cursor/mcp.json",) * 3,
    "vscode": (
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "zed": (".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
    "gemini-cli": (".gemini/settings.json",) * 3,
    "codex": (".codex/config.toml",) * 3,
    "cline": tuple(
        f"{folder}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
        for folder in (".config", "Library/Application Support", "AppData/Roaming")
    ),
    "goose": (
        ".config/goose/config.yaml",
        ".config/goose/config.yaml",
        "AppData/Roaming/Block/goose/config/config.yaml",
    ),
}
PROJECT = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "zed": ".zed/settings.json",
    "gemini-cli": ".gemini/settings.json",
    "codex": ".codex/config.toml",
}
MOVED = [
    ("linux", "XDG_CONFIG_HOME", "zed", "zed/settings.json"),
    ("linux", "XDG_CONFIG_HOME", "vscode", "Code/User/mcp.json"),
    ("linux", "XDG_CONFIG_HOME", "goose", "goose/config.yaml"),
    ("linux", "XDG_CONFIG_HOME", "claude-desktop", "Claude/claude_desktop_config.json"),
    ("linux", "FLATPAK_XDG_CONFIG_HOME", "zed", "zed/settings.json"),
    ("win32", "APPDATA", "claude-desktop", "Claude/claude_desktop_config.json"),
    ("win32", "APPDATA", "goose", "Block/goose/config/config.yaml"),
    ("darwin", "CODEX_HOME", "codex", "config.toml"),
    ("linux", "CLAUDE_CONFIG_DIR", "claude-code", ".claude.json"),
]


def test_every_host_is_in_the_table() -> None:
    assert PLACES.keys() == HOSTS.keys()
    assert PROJECT.keys() == {host.id for host in HOSTS.values() if host.project is not None}


@pytest.mark.parametrize("number", [0, 1, 2], ids=["linux", "darwin", "win32"])
@pytest.mark.parametrize("host", PLACES)
def test_user_file_of_each_host_and_platform(host: str, number: int) -> None:
    platforms: tuple[Literal["linux", "darwin", "win32"], ...] = ("linux", "darwin", "win32")
    machine = Machine(platform=platforms[number], home=HOME, project=Path("/p"))

    assert HOSTS[host].file(machine, "user") == HOME / PLACES[host][number]


@pytest.mark.parametrize("host", PROJECT)
def test_project_file_of_each_host(host: str) -> None:
    assert HOSTS[host].file(Machine(platform="darwin", home=HOME, project=Path("/p")), "project") == Path(
        "/p", PROJECT[host]
    )


@pytest.mark.parametrize(("platform", "variable", "host", "place"), MOVED)
def test_environment_variable_moves_the_file(
    platform: Literal["linux", "darwin", "win32"], variable: str, host: str, place: str
) -> None:
    def file(value: str) -> Path:
        machine = Machine(platform=platform, home=HOME, project=Path("/p"), environ={variable: value})
        return HOSTS[host].file(machine, "user")

    assert file("/else/where") == Path("/else/where", place)
    assert file("relative") == file("") == HOME / PLACES[host][["linux", "darwin", "win32"].index(platform)]


@pytest.mark.parametrize("host", PLACES)
def test_host_is_detected_by_its_files(host: str, machine: Machine) -> None:
    assert not HOSTS[host].is_found(machine)

    HOSTS[host].file(machine, "user").parent.mkdir(parents=True, exist_ok=True)
    if host == "claude-code":
        (machine.home / ".claude").mkdir()
    assert HOSTS[host].is_found(machine)


def test_host_is_detected_in_a_project(machine: Machine) -> None:
    (machine.project / ".mcp.json").write_text("{}")

    assert [host.id for host in HOSTS.values() if host.is_found(machine)] == ["claude-code"]


def test_file_of_a_project_in_the_home_folder_is_not_listed_twice() -> None:
    at_home = Machine(platform="linux", home=HOME, project=HOME)

    assert find_host("cursor").files(at_home) == {"user": HOME / ".cursor/mcp.json"}
    assert set(find_host("claude-code").files(at_home)) == {"user", "project"}


def test_host_without_the_scope_is_refused(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="windsurf: expected --scope user"):
        HOSTS["windsurf"].file(machine, "project")


def test_unknown_host_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=re.escape("got 'claude-dekstop'; did you mean `claude-desktop`?")):
        find_host("claude-dekstop")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"servers": {}}', "servers"),
        ('{"context_servers": {}}', "context_servers"),
        ('{"mcp": {}, "mcpServers": {}}', "mcpServers"),
        ("{}", "mcpServers"),
        ("{", "mcpServers"),
    ],
)
def test_dedicated_file_keeps_its_structure(machine: Machine, text: str, key: str) -> None:
    path = machine.project / "mcp.json"
    path.write_text(text)
    host = find_host(str(path))

    assert (host.key, host.file(machine, "user")) == (key, path)


def test_file_with_the_servers_elsewhere_is_refused(machine: Machine) -> None:
    path = machine.project / "settings.json"
    path.write_text('{"mcp": {"servers": {}}}')

    with pytest.raises(
        ConfigError, match=r"expected one of mcpServers, servers, context_servers, got mcp; .*HOST vscode"
    ):
        find_host(str(path))
