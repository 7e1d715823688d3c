"""``mcptrio plugins add``: tables of well-known servers in the configuration file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from mcptrio.cli.plugins.add import PRESETS
from mcptrio.mounting.tables import MountTable
from mcptrio.serve.config import load_config
from tests.commands.processes import run_text as run

__all__: list[str] = []

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """\
# ours
[server]
name = "mine"  # the name

[mount.files]
command = "files"
"""


def test_added_table_leaves_the_rest_of_the_file_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "mcptrio.toml"
    file.write_text(CONFIG)
    added = run("plugins", "add", "context7", cwd=tmp_path)
    text = file.read_text()

    assert added.returncode == 0, added.stderr
    assert added.stdout.startswith("added [mount.context7] to mcptrio.toml\n")
    assert text.startswith(CONFIG)
    assert tomllib.loads(text)["mount"]["context7"] == PRESETS["context7"].entry
    assert load_config(file).mount["context7"]["command"] == "npx"


def test_existing_table_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "mcptrio.toml"
    file.write_text('[mount]\nplaywright.command = "own"\n')
    added = run("plugins", "add", "playwright", cwd=tmp_path)

    assert added.returncode == 2
    assert "table mount.playwright already exists" in added.stderr
    assert file.read_text() == '[mount]\nplaywright.command = "own"\n'


@pytest.mark.parametrize("text", ["[server\n", "mount = {}\n"])
def test_file_that_cannot_be_edited_is_unchanged(tmp_path: Path, text: str) -> None:
    (tmp_path / "mcptrio.toml").write_text(text)
    added = run("plugins", "add", "playwright", cwd=tmp_path)

    assert added.returncode == 2
    assert (tmp_path / "mcptrio.toml").read_text() == text


def test_missing_variable_and_program_are_named(tmp_path: Path) -> None:
    github = run("plugins", "add", "github", "--config", "other.toml", cwd=tmp_path)
    notion = run("plugins", "add", "notion", "--config", "other.toml", cwd=tmp_path, PATH="/nowhere")

    assert "added [mount.github] to other.toml, which is new\nset the environment variable GITHUB_AUTH" in github.stdout
    assert "set the environment variable NOTION_TOKEN: " in notion.stdout
    assert "install npx, which is not in PATH" in notion.stdout
    assert set(tomllib.loads((tmp_path / "other.toml").read_text())["mount"]) == {"github", "notion"}


def test_presets_are_pinned_valid_and_documented(tmp_path: Path) -> None:
    listed = run("plugins", "add", cwd=tmp_path).stdout
    page = (ROOT / "docs" / "mounting.md").read_text()

    for name, preset in PRESETS.items():
        MountTable(**preset.entry)
        assert name in listed
        source = preset.entry.get("url")
        if source is None:
            package, _, version = preset.entry["args"][-1].rpartition("@")
            assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version), name
            source = f"{package}` {version}"
        assert f"| `{name}` | `{source}" in page
