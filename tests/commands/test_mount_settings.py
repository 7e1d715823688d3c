"""``[mount.NAME]`` in ``mcptrio.toml``: servers that are mounted, errors with file and line, and SIGHUP."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.processes import run, serving

__all__: list[str] = []

GARDEN = """
from mcptrio import tool

@tool
async def sow(bed: str) -> str:
    return f"{bed} is sown"

@tool
async def dig() -> str:
    return "dug"
"""


def table(name: str, more: str = "") -> str:
    args = ["-m", "mcptrio", "serve", "--stdio", "--plugin", "garden.py", "--config", "empty.toml"]
    return f"[mount.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\ncwd = '.'\n{more}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "garden.py").write_text(GARDEN)
    (tmp_path / "empty.toml").write_text("")
    more = "start_timeout = 60\nready_timeout = 60\ntools.exclude = ['dig']\n"
    (tmp_path / "mcptrio.toml").write_text("[server]\nenable = []\n" + table("garden", more))
    return tmp_path


def loaded(folder: Path, *args: str) -> list[str]:
    listed = json.loads(run("plugins", "--json", *args, cwd=folder).stdout)["plugins"]
    return [each["name"] for each in listed if not each["failure"]]


def test_configured_server_is_mounted_unless_excluded(folder: Path) -> None:
    with serving("--stdio", cwd=folder) as served:
        served.greet()
        assert served.call("garden_sow", bed="north") == "north is sown"
        with pytest.raises(KeyError):
            served.call("garden_dig")

    assert "mount" not in loaded(folder, "--no-plugin", "mount")
    assert "mount" not in loaded(folder, "--plugin", "garden.py")
    assert "mount" in loaded(folder, "--plugin", "mount")


def test_invalid_mount_error_names_file_and_line(folder: Path) -> None:
    with (folder / "mcptrio.toml").open("a") as file:
        file.write("patience = 5\n")

    ended = run("serve", "--stdio", "--strict", cwd=folder)

    assert ended.returncode == 2
    assert "mcptrio.toml:10: mount.garden.patience: there is no setting `patience`" in ended.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGHUP")
def test_first_server_is_mounted_on_reload(folder: Path) -> None:
    config = folder / "mcptrio.toml"
    text = config.read_text()
    config.write_text("[server]\nenable = ['garden.py']\n")
    with serving("--listen", "unix:own.sock", cwd=folder) as served:
        served.until("serving unix:")
        config.write_text(text)
        served.signal(signal.SIGHUP)
        served.until("plugins reloaded")
        called = run("call", f"unix:{folder}/own.sock", "garden_sow", "bed=north", cwd=folder)

    assert called.stdout == "north is sown\n", called.stderr
