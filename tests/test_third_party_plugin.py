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
from tests.elsewhere import ROOT, Elsewhere, open_elsewhere

__all__: list[str] = []

WAIT_TIMEOUT = 120.0
"""Seconds; only a failing test waits this long."""
TEMPLATES = ROOT / "mcptrio" / "cli" / "new" / "templates"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    folder = tmp_path_factory.mktemp("elsewhere")
    there = open_elsewhere(folder, folder / "venv")
    there.install(ROOT)
    return there


@pytest.fixture(scope="module")
def project(elsewhere: Elsewhere) -> Path:
    """A new plugin package, as its author receives it."""
    elsewhere.run("mcptrio", "new", "notes-2", "--author", "Ada Lovelace <ada@example.com>")
    return elsewhere.folder / "mcptrio-notes-2"


@pytest.fixture(scope="module")
def installed(elsewhere: Elsewhere, project: Path) -> Elsewhere:
    """The environment with the plugin."""
    elsewhere.install(project)
    return elsewhere


def test_installed_wheel_is_used(elsewhere: Elsewhere) -> None:
    code = "import mcptrio, sys; sys.stdout.write(mcptrio.__file__)"
    done = subprocess.run(
        [elsewhere.python, "-P", "-c", code], capture_output=True, text=True, timeout=WAIT_TIMEOUT, check=True
    )

    assert Path(done.stdout).is_relative_to(elsewhere.folder / "venv")


def test_tests_of_the_new_plugin_pass_before_installation(elsewhere: Elsewhere, project: Path) -> None:
    output = elsewhere.run("pytest", "-q", "-p", "no:cacheprovider", cwd=project)

    assert " passed" in output
    assert "failed" not in output
    assert "skipped" not in output


def test_third_party_plugin_is_listed_with_its_details(installed: Elsewhere) -> None:
    [plugin] = json.loads(installed.run("mcptrio", "plugins", "--json"))["plugins"]

    assert (plugin["name"], plugin["distribution"], plugin["version"]) == ("notes-2", "mcptrio-notes-2", "0.1.0")
    assert plugin["failure"] is None
    assert plugin["warnings"] == []
    assert plugin["offers"] == {
        "tools": ["notes-2_greet"],
        "resources": ["notes-2://greeted"],
        "prompts": ["notes-2_welcome"],
    }


def test_third_party_plugin_is_called_from_the_command_line(installed: Elsewhere) -> None:
    output = installed.run(
        "mcptrio", "call", "--plugin", "notes-2", "notes-2_greet", "names=Ada", "names=Grace", "--json"
    )

    assert json.loads(output)["structuredContent"] == ["Hello, Ada!", "Hello, Grace!"]


async def test_host_starts_a_server_of_the_third_party_plugin(installed: Elsewhere, tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text('[plugins.notes-2]\ngreeting = "Moin"\n')
    command: Sequence[str] = [str(installed.python), "-P", "-m", "mcptrio", "serve", "--stdio"]

    timeouts = ClientTimeouts(connect=WAIT_TIMEOUT / 2, probe=WAIT_TIMEOUT / 2)
    with trio.fail_after(WAIT_TIMEOUT):
        async with connect(Command(args=command, cwd=tmp_path), timeouts=timeouts) as client:
            result = await client.call_tool("notes-2_greet", {"names": ["Ada"]})
            read = await client.read_resource("notes-2://greeted")

    assert result.structured_content == ["Moin, Ada!"]
    assert getattr(read.contents[0], "text", None) == "1"


def test_templates_are_in_wheel_and_sdist(elsewhere: Elsewhere) -> None:
    """They are in the wheel, because ``mcptrio new`` has used them. Distributors build from the sdist."""
    elsewhere.run(
        "hatchling", "build", "-t", "sdist", "-d", elsewhere.folder / "sdist", cwd=ROOT, python=Path(sys.executable)
    )
    [archive] = (elsewhere.folder / "sdist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    stored = {str(file.relative_to(ROOT)) for file in TEMPLATES.rglob("*") if file.is_file()}

    assert len(stored) >= 11
    assert stored <= held
