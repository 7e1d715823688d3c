"""A third party's plugin, from ``mcptrio new`` to a host that calls it, with only the wheel of this tree.

The environment is fresh: mcptrio and the plugin are installed from wheels. This test's environment lends their
dependencies, except distributions whose name begins with mcptrio.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from mcptrio import Command, connect
from mcptrio.client import ClientTimeouts
from tests.fresh_environment import ROOT, FreshEnvironment, create_environment

__all__: list[str] = []

WAIT_TIMEOUT = 120.0
"""Seconds; only a failing test waits this long."""
TEMPLATES = ROOT / "mcptrio" / "cli" / "new" / "templates"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    folder = tmp_path_factory.mktemp("fresh")
    there = create_environment(folder, folder / "venv")
    there.install(ROOT)
    return there


@pytest.fixture(scope="module")
def project(fresh: FreshEnvironment) -> Path:
    """A new plugin package, as its author receives it."""
    fresh.run("mcptrio", "new", "notes-2", "--author", "Ada Lovelace <ada@example.com>")
    return fresh.folder / "mcptrio-notes-2"


@pytest.fixture(scope="module")
def installed(fresh: FreshEnvironment, project: Path) -> FreshEnvironment:
    """The environment with the plugin."""
    fresh.install(project)
    return fresh


def test_installed_wheel_is_used(fresh: FreshEnvironment) -> None:
    code = "import mcptrio, sys; sys.stdout.write(mcptrio.__file__)"
    result = subprocess.run(
        [fresh.python, "-P", "-c", code], capture_output=True, text=True, timeout=WAIT_TIMEOUT, check=True
    )

    assert Path(result.stdout).is_relative_to(fresh.folder / "venv")


def test_tests_of_the_new_plugin_pass_before_installation(fresh: FreshEnvironment, project: Path) -> None:
    output = fresh.run("pytest", "-q", "-p", "no:cacheprovider", cwd=project)

    assert " passed" in output
    assert "failed" not in output
    assert "skipped" not in output


def test_third_party_plugin_is_listed_with_its_details(installed: FreshEnvironment) -> None:
    [plugin] = json.loads(installed.run("mcptrio", "plugins", "--json"))["plugins"]

    assert (plugin["name"], plugin["distribution"], plugin["version"]) == ("notes-2", "mcptrio-notes-2", "0.1.0")
    assert plugin["failure"] is None
    assert plugin["warnings"] == []
    assert plugin["offers"] == {
        "tools": ["notes-2_greet"],
        "resources": ["notes-2://greeted"],
        "prompts": ["notes-2_welcome"],
    }


def test_third_party_plugin_is_called_from_the_command_line(installed: FreshEnvironment) -> None:
    output = installed.run(
        "mcptrio", "call", "--plugin", "notes-2", "notes-2_greet", "names=Ada", "names=Grace", "--json"
    )

    assert json.loads(output)["structuredContent"] == ["Hello, Ada!", "Hello, Grace!"]


async def test_host_starts_a_server_of_the_third_party_plugin(installed: FreshEnvironment, tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text('[plugins.notes-2]\ngreeting = "Moin"\n')
    command: Sequence[str] = [str(installed.python), "-P", "-m", "mcptrio", "serve", "--stdio"]

    timeouts = ClientTimeouts(connect=WAIT_TIMEOUT / 2, probe=WAIT_TIMEOUT / 2)
    with trio.fail_after(WAIT_TIMEOUT):
        async with connect(Command(args=command, cwd=tmp_path), timeouts=timeouts) as client:
            result = await client.call_tool("notes-2_greet", {"names": ["Ada"]})
            read = await client.read_resource("notes-2://greeted")

    assert result.structured_content == ["Moin, Ada!"]
    assert getattr(read.contents[0], "text", None) == "1"


def test_templates_are_in_wheel_and_sdist(fresh: FreshEnvironment) -> None:
    """They are in the wheel, because ``mcptrio new`` has used them. Distributors build from the sdist."""
    fresh.run("hatchling", "build", "-t", "sdist", "-d", fresh.folder / "sdist", cwd=ROOT, python=Path(sys.executable))
    [archive] = (fresh.folder / "sdist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    stored = {str(file.relative_to(ROOT)) for file in TEMPLATES.rglob("*") if file.is_file()}

    assert len(stored) >= 11
    assert stored <= held
