"""docs/design.md has a sentence for every dependency and a place for every module."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.test_layers import LAYERS

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent


def load(name: str) -> Any:
    """A script in docs, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


draw_packages, draw_diagrams = load("draw_packages"), load("draw_diagrams")
PAGE = (ROOT / "docs" / "design.md").read_text("utf-8")


def test_every_dependency_is_described() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [name for names in project.get("optional-dependencies", {}).values() for name in names]
    needed = {re.split(r"[<>=\[]", name)[0] for name in (*project["dependencies"], *extras)}
    documented = set(
        re.findall(r"^\| ([\w-]+)[^|\n]* \| [^|\n]{10,} \|$", PAGE.split("## Dependencies")[1], re.MULTILINE)
    )

    assert documented == needed


def test_documented_layers_match_the_layers_test() -> None:
    assert [tuple(layer) for layer in draw_packages.read_layers()] == [*LAYERS[:-1]]


def test_picture_of_the_packages_is_up_to_date() -> None:
    drawn = (ROOT / "docs" / "packages.svg").read_text("utf-8")

    assert drawn == draw_packages.draw(), "run docs/draw_packages.py"


def test_transitive_import_between_packages_is_not_drawn() -> None:
    imports = {"cli": {"client", "abc"}, "client": {"abc"}, "abc": set[str]()}

    assert draw_packages.direct(imports) == [("cli", "client"), ("client", "abc")]


def test_diagrams_are_up_to_date_and_shown() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md"))
    sources = [path for path in draw_diagrams.FOLDER.iterdir() if path.suffix != ".svg"]

    assert len(sources) > 2
    for source in sources:
        picture = source.with_suffix(".svg")
        assert picture.read_text("utf-8") == draw_diagrams.draw(source), "run docs/draw_diagrams.py"
        assert f"(diagrams/{picture.name})" in pages


def test_mistake_in_a_diagram_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "a.sequence"
    source.write_text("Title\na, b\na to b: text\n")

    with pytest.raises(ValueError, match="expected a message, a response or a note, got 'a to b: text'"):
        draw_diagrams.draw(source)


def test_modules_named_on_the_page_exist() -> None:
    table = PAGE.split("## Where is …?")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z_0-9]+/[a-z_0-9/]*)`?", table))

    missing = {name for name in named if not list((ROOT / "mcptrio").glob(f"{name.rstrip('/')}*"))}
    assert len(named) > 20
    assert missing == set()
