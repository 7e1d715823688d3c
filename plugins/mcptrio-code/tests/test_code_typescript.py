"""The tools on a small project, with typescript-language-server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.node import find_node

from .conftest import Connect, answer

SHAPES = """\
export class Square {
  constructor(private side: number) {}
  area(): number {
    return this.side ** 2;
  }
}
"""
MAIN = """\
import { Square } from "./shapes";
const smile = "😀ä"; const square = new Square("2");
console.log(smile, square.area());
"""


@pytest.fixture
def typescript(project: Path) -> dict[str, object]:
    """The language server of npm; the project gets two files for it."""
    (project / "shapes.ts").write_text(SHAPES)
    (project / "main.ts").write_text(MAIN)
    (project / "tsconfig.json").write_text('{"compilerOptions": {"strict": true}}')
    node = find_node()
    script = (
        node.install(Path(__file__).with_name("typescript")) / "node_modules/typescript-language-server/lib/cli.mjs"
    )
    return {
        "command": [str(node.binary), str(script), "--stdio"],
        "globs": ["*.ts"],
        "env": {"PATH": f"{node.binary.parent}{os.pathsep}{os.environ['PATH']}"},
    }


async def test_project_is_explored(code_client: Connect, typescript: dict[str, object]) -> None:
    # Without the default server for Python, which this test does not need.
    python = {"command": [], "globs": []}
    async with code_client(servers={"typescript": typescript, "python": python}) as client:
        assert "  3-5: area(): number {" in (await answer(client, "outline", path="shapes.ts")).splitlines()
        assert "shapes.ts:1: export class Square {" in await answer(client, "find_symbol", query="Square")
        found = await answer(client, "references", symbol="Square.area", path="shapes.ts")
        assert found == "main.ts:3: console.log(smile, square.area());\nshapes.ts:3: area(): number {"
        assert await answer(client, "definition", symbol="area", path="main.ts") == "shapes.ts:3: area(): number {"
        found = await answer(client, "diagnostics", path="main.ts")
        assert found.startswith("main.ts:2: error: Argument of type 'string' is not assignable")
        diff = await answer(client, "rename", symbol="Square", path="shapes.ts", new_name="Quadrat")
        assert '+const smile = "😀ä"; const square = new Quadrat("2");' in diff
