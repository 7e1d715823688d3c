"""A new user follows the README: three plugins, one host application, and the server that it starts.

The README's own packages, configuration and commands are used, with a temporary home. The official SDK's client acts as
the host application, with nothing but the written file.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import frozen
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.fresh_environment import ROOT, FreshEnvironment, create_environment
from tests.processes import environment

__all__: list[str] = []


@frozen
class Instructions:
    """The instructions of the README, in an environment with mcptrio."""

    projects: tuple[str, ...]
    configuration: str
    configuration_path: str
    commands: tuple[tuple[str, ...], ...]


@frozen
class Installation:
    """The result of the instructions."""

    there: FreshEnvironment
    home: Path
    outputs: tuple[str, ...]


def told() -> Instructions:
    text = (ROOT / "README.md").read_text("utf-8").partition("### In a host application")[2].partition("\n## ")[0]
    install, hosts = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    [configuration] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    [path] = re.findall(r"create `(.*?)`", text)
    plugins = tuple(word for word in shlex.split(install) if word.startswith("./"))
    commands = tuple(tuple(shlex.split(line)) for line in hosts.splitlines())
    assert all(command[0] == "mcptrio" for command in commands)
    return Instructions((".", *plugins), configuration, path, commands)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("new-user")
    home, says = folder / "home", told()

    projects = home / "projects" / "site"
    projects.mkdir(parents=True)
    git = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    for arguments in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "First")):
        subprocess.run([*git, *arguments], cwd=projects, env=environment(HOME=str(home)), check=True, timeout=60)
    there = create_environment(folder, folder / ".venv")
    there.install(*(ROOT / project for project in says.projects))
    (folder / says.configuration_path).write_text(says.configuration)
    messages = []
    for command in says.commands:
        result = subprocess.run(
            [there.venv / "bin" / command[0], *command[1:]],
            cwd=folder,
            env=_bare(HOME=str(home)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        messages.append(result.stdout)
    return Installation(there, home, tuple(messages))


def _bare(**more: str) -> Mapping[str, str]:
    """Return the environment of a graphical program: without a shell's settings."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **more}


def test_readme_names_three_plugins() -> None:
    first, *plugins = told().projects

    assert first == "."
    assert len(plugins) == 3
    assert all((ROOT / project / "pyproject.toml").is_file() for project in plugins)


def test_install_and_status_report_the_result(installed: Installation) -> None:
    install, status = installed.outputs

    assert f"Cursor: mcptrio added: {installed.home}/.cursor/mcp.json" in install
    assert "!" not in status
    assert re.search(r"answers: mcptrio \S+, \S+, \d+ tools", status)


async def test_host_starts_a_working_server(installed: Installation, tmp_path: Path) -> None:
    entry = json.loads((installed.home / ".cursor/mcp.json").read_text())["mcpServers"]["mcptrio"]
    assert Path(entry["command"]).is_relative_to(installed.there.venv)
    # Hosts start servers in the host's folder, so this one has its own.
    parameters = StdioServerParameters(
        command=entry["command"],
        args=entry["args"],
        env={**_bare(HOME=str(installed.home)), **entry.get("env", {})},
        cwd=tmp_path,
    )
    with trio.fail_after(120):
        async with stdio_client(parameters) as (reads, writes), ClientSession(reads, writes) as session:
            hello = await session.initialize()
            names = {tool.name for tool in (await session.list_tools()).tools}

            async def call(name: str, **arguments: Any) -> Any:
                result = await session.call_tool(name, arguments)
                assert not result.is_error, result.content
                return result.structured_content

            status = await call("git_status")
            ann = {"name": "Ann", "entity_type": "person", "observations": ["likes Trio"]}
            await call("memory_create_entities", entities=[ann])
            graph = await call("memory_read_graph")
            time = await call("time_get_current_time", timezone="Europe/Berlin")

    assert hello.server_info.name == "mcptrio"
    assert {name.partition("_")[0] for name in names} == {"git", "memory", "time"}
    assert (status["branch"], status["clean"]) == ("main", True)
    assert [entity["name"] for entity in graph["entities"]] == ["Ann"]
    assert time["timezone"] == "Europe/Berlin"
    # The server's files are in the home of its user.
    assert os.listdir(tmp_path) == []
