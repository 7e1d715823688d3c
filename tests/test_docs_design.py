"""docs/design.md has a sentence for every dependency and a place for every module."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

from tests.test_layers import FLOORS

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
_SPEC = importlib.util.spec_from_file_location("draw_rooms", ROOT / "docs" / "draw_rooms.py")
assert _SPEC is not None
assert _SPEC.loader is not None
draw_rooms = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(draw_rooms)
PAGE = (ROOT / "docs" / "design.md").read_text("utf-8")


def test_every_dependency_has_a_sentence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [name for names in project.get("optional-dependencies", {}).values() for name in names]
    needed = {re.split(r"[<>=\[]", name)[0] for name in (*project["dependencies"], *extras)}
    documented = set(
        re.findall(r"^\| ([\w-]+)[^|\n]* \| [^|\n]{10,} \|$", PAGE.split("## Dependencies")[1], re.MULTILINE)
    )

    assert documented == needed


def test_floors_are_those_of_the_house_rules() -> None:
    assert [tuple(floor) for floor in draw_rooms.read_floors()] == [*FLOORS[:-1]]


def test_picture_of_the_rooms_is_up_to_date() -> None:
    drawn = (ROOT / "docs" / "rooms.svg").read_text("utf-8")

    assert drawn == draw_rooms.draw(), "run docs/draw_rooms.py"


def test_import_between_rooms_is_drawn_unless_another_way_stands_for_it() -> None:
    imports = {"cli": {"client", "abc"}, "client": {"abc"}, "abc": set[str]()}

    assert draw_rooms.direct(imports) == [("cli", "client"), ("client", "abc")]
