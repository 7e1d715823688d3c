"""``mcptrio new``: valid names, refused names, and no files after a refusal."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mcptrio.cli.new import SHIPPED, NewPlugin, write_plugin
from mcptrio.errors import ConfigError
from tests.distributions import install, one_tool
from tests.processes import run

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
LONGEST = "abcdefghij-klmnopqrs"
ROOM = 4096 - len("/.mcptrio-new-12345678/mcptrio-notes/pyproject.toml") - 5
"""Characters of a folder in which pyproject.toml can be written, and .github/workflows/ci.yml cannot."""


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_new_prints_the_written_files(tmp_path: Path) -> None:
    result = run("new", "notes", "--description", 'Notes, "kept"', cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "wrote mcptrio-notes: 10 files"
    assert contents(tmp_path / "mcptrio-notes") == [
        ".github",
        ".github/workflows",
        ".github/workflows/ci.yml",
        ".gitignore",
        "README.md",
        "mcptrio_notes",
        "mcptrio_notes/__init__.py",
        "mcptrio_notes/config.py",
        "mcptrio_notes/py.typed",
        "mcptrio_notes/tools.py",
        "pyproject.toml",
        "tests",
        "tests/test_config.py",
        "tests/test_tools.py",
    ]
    project = tomllib.loads((tmp_path / "mcptrio-notes" / "pyproject.toml").read_text())["project"]
    assert project["description"] == 'Notes, "kept"'
    assert {"license", "authors"} & project.keys() == set()


def test_author_option_adds_a_license(tmp_path: Path) -> None:
    author = 'Zoë "Z" O\\Neill <zoe@example.com>'
    write_plugin(NewPlugin(name="notes", author=author), tmp_path)
    project = tomllib.loads((tmp_path / "mcptrio-notes" / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["authors"] == [{"name": 'Zoë "Z" O\\Neill', "email": "zoe@example.com"}]
    assert project["license"] == "MIT"
    assert 'Zoë "Z" O\\Neill\n' in (tmp_path / "mcptrio-notes" / "LICENSE").read_text("utf-8")


@pytest.mark.parametrize("name", ["x", LONGEST])
def test_no_placeholder_and_no_long_line_is_left(name: str, tmp_path: Path) -> None:
    written = write_plugin(NewPlugin(name=name, author="Ada"), tmp_path)
    texts = {path: path.read_text("utf-8") for path in written}

    for path, text in texts.items():
        assert not any(word in text for word in ("@NAME@", "@MODULE@", "@DESC", "@YEAR", "@AUTH", "@LIC", "@VAR"))
        if path.suffix == ".py":
            compile(text, path, "exec")
            assert max(map(len, text.splitlines()), default=0) <= 120, path
        assert text.endswith("\n") or not text


def test_new_folder_has_default_permissions(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    [first, *_] = write_plugin(NewPlugin(name="notes"), tmp_path)

    assert first.parent.stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "expected a name of 1 to 20"),
        ("Notes", "expected a name of 1 to 20"),
        ("9lives", "expected a name of 1 to 20"),
        ("my_notes", "expected a name of 1 to 20"),
        ("../notes", "expected a name of 1 to 20"),
        ("notes\n", "expected a name of 1 to 20"),
        ("a" * 21, "expected a name of 1 to 20"),
        ("notes-", "expected a hyphen between"),
        ("my--notes", "expected a hyphen between"),
        ("lambda", "a keyword of Python"),
        ("match", "a keyword of Python"),
    ],
)
def test_invalid_plugin_name_is_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        NewPlugin(name=name)


@pytest.mark.parametrize("text", ["", "  ", "one\ntwo", "a" * 201, "\x1b[31m"])
def test_description_or_author_that_is_not_one_line_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--description: expected one line"):
        NewPlugin(name="notes", description=text)
    with pytest.raises(ConfigError, match="--author: expected one line"):
        NewPlugin(name="notes", author=text)


@pytest.mark.parametrize("author", ["<a@example.com>", "Ada <ada>", "Ada <a@b", "Ada <a@b> x"])
def test_invalid_author_is_refused(author: str) -> None:
    with pytest.raises(ConfigError, match="--author: expected NAME or NAME <EMAIL>"):
        NewPlugin(name="notes", author=author)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("taken", "a plugin taken is already installed, by mcptrio-taken"),
        ("time", "time is a plugin that comes with mcptrio"),
        ("serve", "serve is a command of mcptrio"),
    ],
)
def test_used_name_is_refused(name: str, why: str, tmp_path: Path) -> None:
    lib = install(tmp_path / "lib", "mcptrio-taken", modules={"taken_already": one_tool("x")}, taken="taken_already")
    (tmp_path / "here").mkdir()
    result = run("new", name, cwd=tmp_path / "here", PYTHONPATH=str(lib))

    assert result.returncode == 2
    assert why in result.stderr
    assert contents(tmp_path / "here") == []


def test_names_of_shipped_plugins_are_reserved() -> None:
    found = [tomllib.loads(each.read_text("utf-8")) for each in (ROOT / "plugins").glob("*/pyproject.toml")]

    assert {name for each in found for name in each["project"]["entry-points"].get("mcptrio", {})} <= set(SHIPPED)
    assert len(found) > 1


def test_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mcptrio-notes").mkdir()
    (tmp_path / "mcptrio-notes" / "mine.txt").write_text("mine")
    result = run("new", "notes", cwd=tmp_path)

    assert result.returncode == 2
    assert "mcptrio-notes: expected a new or empty folder" in result.stderr
    assert contents(tmp_path) == ["mcptrio-notes", "mcptrio-notes/mine.txt"]


def test_empty_folder_is_accepted_and_a_link_refused(tmp_path: Path) -> None:
    (tmp_path / "mcptrio-notes").mkdir()
    write_plugin(NewPlugin(name="notes"), tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mcptrio-linked").symlink_to(tmp_path / "elsewhere")

    assert (tmp_path / "mcptrio-notes" / "README.md").is_file()
    with pytest.raises(ConfigError, match="expected a new or empty folder"):
        write_plugin(NewPlugin(name="linked"), tmp_path)


def test_missing_folder_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        write_plugin(NewPlugin(name="notes"), tmp_path / "nowhere")

    assert contents(tmp_path) == []


def test_failure_while_writing_leaves_no_files(tmp_path: Path) -> None:
    """The folder is nested so deeply that the shorter paths can be written, and the longest cannot."""
    deep = tmp_path
    while (rest := ROOM - len(str(deep)) - 1) > 0:
        deep /= "d" * (rest if rest <= 255 else 200)
        deep.mkdir()
    with pytest.raises(OSError, match="name too long"):
        write_plugin(NewPlugin(name="notes"), deep)

    assert list(deep.iterdir()) == []
