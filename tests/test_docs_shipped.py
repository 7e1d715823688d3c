"""The plugins that ship: each is in docs/plugins.md, and its README matches the code.

Settings with their defaults, tools under the names that clients see, examples that load, and first examples that print
what is shown.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from mcptrio import Server
from mcptrio.errors import ConfigError
from mcptrio.plugins import discovery
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.settings import PluginTables
from mcptrio.serve.config import load_config
from mcptrio.serving import ServerSettings

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "plugins.md").read_text("utf-8")
SHIPPED = sorted(
    path.parent.name.removeprefix("mcptrio-")
    for path in ROOT.glob("plugins/mcptrio-*/pyproject.toml")
    # Distributions of stores do not count as plugins.
    if "mcptrio" in tomllib.loads(path.read_text("utf-8"))["project"]["entry-points"]
)
EVERYTHING_ON: dict[str, dict[str, Any]] = {
    "git": {"repositories": ["."], "allow_network": True, "clone_folder": "."},
    "postgres": {"databases": {"shop": "postgresql:///shop"}, "writable": ["*"]},
    "sqlite": {"databases": {"shop": "shop.db"}, "writable": ["*"]},
}
"""Settings with which a plugin offers all its tools, if that is not the default."""

UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
NOTHING: tuple[object, ...] = (None, (), "", {})


def readme(name: str) -> str:
    return (ROOT / "plugins" / f"mcptrio-{name}" / "README.md").read_text("utf-8")


def loaded(name: str, tables: PluginTables) -> Plugin:
    manager = PluginManager(strict=True)
    manager.load_installed(only=[name])
    Server(plugins=manager, config=tables, settings=ServerSettings(strict=True))
    return manager.plugins[name]


def documented(name: str) -> dict[str, str]:
    """The keys of the plugin in its README, and their defaults; those of tables inside it left out."""
    section = readme(name).partition("## Configuration\n")[2].partition("\n## ")[0]
    found: dict[str, str] = {}
    for table in re.findall(r"^\| key(?: of the plugin)? \|.*\n(?:\|.*\n)+", section, re.MULTILINE):
        for keys, defaults in re.findall(r"^\| (`.*?) \| (.*?) \|", table, re.MULTILINE):
            names = re.findall(r"`([\w.]+)`", keys)
            each = defaults.split(", ") if len(names) > 1 else [defaults]
            found.update(zip(names, each, strict=True))
    return found


def settings(cls: type[Any], rows: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The fields of a class and their defaults, of a class inside it with a dot unless it has a row itself."""
    made = cls()
    for field in attrs.fields(cls):
        if not field.init:
            continue
        value = getattr(made, field.name)
        if attrs.has(type(value)) and field.name not in rows:
            yield from ((f"{field.name}.{inner}", default) for inner, default in settings(type(value), ()))
        else:
            yield field.name, value


def differs(message: str, default: Any) -> bool:
    """Return whether a default differs from the one in a table; a description in words matches any default."""
    if number := re.fullmatch(r"([\d.]+)(?: (\wiB))?", message):
        return bool(float(number[1]) * UNITS[number[2] or ""] != default)
    if message in ("`true`", "`false`"):
        return default is not (message == "`true`")
    return message in ("none", "unset") and default not in NOTHING and not attrs.has(type(default))


def test_missing_shipped_plugin_error_names_its_distribution() -> None:
    # The demonstration is loaded by name only, and has its own entry point group.
    assert sorted(discovery.SHIPPED) == sorted([*SHIPPED, "everything"])
    with pytest.raises(ConfigError, match=r"^no plugin `git` is installed; the distribution mcptrio-git has it"):
        discovery.check_offered(["git"], {"fs": object()})


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_plugin_has_a_row(name: str) -> None:
    assert re.search(rf"^\| \[{name}\]\(\.\./plugins/mcptrio-{name}/README\.md\) \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_setting_is_in_the_readme(name: str) -> None:
    cls = type(loaded(name, PluginTables()).config)
    if not attrs.has(cls):
        assert documented(name) == {}
        return
    wrong, rows = {}, documented(name)
    there = dict(settings(cls, rows))
    # A mapping of tables has its own table in the README.
    for key in [key for key, value in there.items() if value == {} and key not in rows]:
        assert f"[plugins.{name}.{key}." in readme(name)
        del there[key]

    assert set(rows) == set(there)
    for key, default in there.items():
        if differs(rows[key], default):
            wrong[key] = (rows[key], default)
    assert wrong == {}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_tool_is_in_the_readme_as_clients_see_it(name: str, tmp_path: Path) -> None:
    plugin = loaded(name, PluginTables(tables={name: EVERYTHING_ON.get(name, {})}, folder=tmp_path))
    text = readme(name)
    missing = [tool for tool in plugin.offers.get("tools", ()) if f"`{tool}`" not in text]

    # Tools of the conformance suite are documented there.
    assert [tool for tool in missing if not (name == "everything" and tool.startswith(("test_", "json_schema_")))] == []


@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in ("authserver", "openapi")])
def test_every_readme_calls_a_tool_before_its_settings(name: str, tmp_path: Path) -> None:
    plugin = loaded(name, PluginTables(tables={name: EVERYTHING_ON.get(name, {})}, folder=tmp_path))
    start = readme(name).partition("## Configuration\n")[0]
    called = re.findall(rf"^(?:\$ )?mcptrio call --plugin {name} (\w+)", start, re.MULTILINE)

    assert called
    assert set(called) <= set(plugin.offers["tools"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that the first examples of the READMEs use."""
    files = {
        "site/README.md": "# Site\n",
        "site/docs/tea.md": "The tea is green.\n",
        "skills/git-workflow/SKILL.md": "---\nname: git-workflow\ndescription: Commit and review changes\n---\n",
        "shapes.py": "class Square:\n    def __init__(self, side: float) -> None:\n        self.side = side\n\n"
        "    def area(self) -> float:\n        return self.side**2\n",
        "main.py": "from shapes import Square\n\nsquare = Square(2)\nprint(square.area())\n",
        "birds.csv": "name;count\nfinch;10\n",
        "petstore.yaml": "openapi: 3.1.0\ninfo: {title: Pets, version: '1'}\npaths:\n  /pets/{id}:\n    get:\n"
        "      operationId: getPet\n      summary: Get a pet.\n      responses: {'200': {description: A pet}}\n"
        "      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "projects").mkdir()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL)")
        database.execute("INSERT INTO orders (total) VALUES (9.5), (20)")
    for variable in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{variable}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{variable}_EMAIL", "ada@example.com")
        monkeypatch.setenv(f"GIT_{variable}_DATE", "2026-03-02T12:00:00Z")
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Describe the tea"]):
        subprocess.run(["git", *arguments], cwd=tmp_path / "site", check=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize(
    "name", [name for name in [*SHIPPED, "everything"] if "```console\n$ " in readme(name) and name != "authserver"]
)
def test_first_example_of_the_readme_prints_what_is_shown(name: str, folder: Path) -> None:
    start, _, rest = readme(name).partition("```console\n")
    lines = rest.partition("```")[0].splitlines()
    if "```toml\n" in start:
        (folder / "mcptrio.toml").write_text(start.partition("```toml\n")[2].partition("```")[0])
    script = "\n".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    result = subprocess.run(
        ["bash", "-ec", script], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )

    assert result.stdout.splitlines() == [line for line in lines if not line.startswith("$ ")], result.stderr


@pytest.mark.parametrize("name", [name for name in SHIPPED if "```toml" in readme(name)])
def test_example_of_the_readme_is_a_valid_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for text in re.findall(r"```toml\n(.*?)```", readme(name), re.DOTALL):
        for variable in re.findall(r'"\$env" = "(\w+)"', text):
            monkeypatch.setenv(variable, "a secret")
        file = tmp_path / "mcptrio.toml"
        file.write_text(text)
        assert name in tomllib.loads(text)["plugins"]
        read = load_config(file)
        plugin = loaded(name, PluginTables(tables=read.plugins, folder=tmp_path, error=read.error))

        assert plugin.failure is None
