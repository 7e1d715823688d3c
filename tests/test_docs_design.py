"""docs/design.md has a sentence for every dependency and a place for every module."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "design.md").read_text("utf-8")


def test_every_dependency_has_a_sentence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [name for names in project.get("optional-dependencies", {}).values() for name in names]
    needed = {re.split(r"[<>=\[]", name)[0] for name in (*project["dependencies"], *extras)}
    documented = set(
        re.findall(r"^\| ([\w-]+)[^|\n]* \| [^|\n]{10,} \|$", PAGE.split("## Dependencies")[1], re.MULTILINE)
    )

    assert documented == needed


def test_every_module_has_its_layer() -> None:
    layers = PAGE.split("## Layers")[1].split("\n## ")[0]
    package = ROOT / "mcptrio"
    tops = {
        path.stem if path.is_file() else f"{path.name}/"
        for path in package.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }

    assert {top for top in tops if f"`{top}`" not in layers} == {"__main__"}
