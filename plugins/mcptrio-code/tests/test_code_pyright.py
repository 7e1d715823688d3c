"""The tools on a small project, with the language server of pyright."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcptrio_code.positions import column_of, units_before

from .conftest import Connect, answer, refusal


async def test_project_is_explored(code_client: Connect, check_tokens: Any) -> None:
    async with code_client() as client:
        await check_tokens(client, 660)
        assert (await answer(client, "outline", path="shapes.py")).startswith("shapes.py: 18 lines\n3: UNIT = 1\n6-9: ")
        found = await answer(client, "find_symbol", query="Square")
        # pyright reads files one after the other, so it may not know the variable of main.py yet.
        assert found.splitlines()[-1] == "shapes.py:12: class Square(Shape):"
        uses = ["main.py:1: from shapes import Square", 'main.py:3: smile = "😀ä"; square = Square(2)']
        found = await answer(client, "references", symbol="Square", path="shapes.py")
        assert found == "\n".join([*uses, "shapes.py:12: class Square(Shape):"])
        # Characters that have another length in UTF-16 and in UTF-8 are on the line before the name.
        found = await answer(client, "references", symbol="square", path="main.py", line=3)
        assert found == 'main.py:3: smile = "😀ä"; square = Square(2)\nmain.py:4: print(smile, square.area())'
        found = await answer(client, "definition", symbol="area", path="main.py")
        assert found == "shapes.py:16: def area(self) -> int:"
        found = await answer(client, "references", symbol="Square.area", path="shapes.py", limit=1)
        assert found == "main.py:4: print(smile, square.area())\n[1 of 2; continue with offset=1]"
        found = await answer(client, "references", symbol="Square.area", path="shapes.py", limit=1, offset=1)
        assert found == "shapes.py:16: def area(self) -> int:"


async def test_first_call_finds_symbols_of_all_files(code_client: Connect, project: Path) -> None:
    (project / "pyrightconfig.json").unlink()
    async with code_client() as client:
        assert await answer(client, "find_symbol", query="Shape") == "shapes.py:6: class Shape:"


async def test_first_call_finds_references_in_all_files(code_client: Connect) -> None:
    async with code_client() as client:
        found = await answer(client, "references", symbol="Square", path="shapes.py")
        assert found.startswith("main.py:1: from shapes import Square\n")


async def test_invalid_arguments_are_explained(code_client: Connect, project: Path) -> None:
    (project / "data.bin").write_bytes(b"\xff")
    (project / "bad.py").write_bytes(b"\xff")
    (project.parent / "outside.py").write_text("SECRET = 1\n")
    (project / "link.py").symlink_to(project.parent / "outside.py")
    async with code_client(max_file_bytes=1024) as client:
        message = await refusal(client, "references", symbol="area", path="shapes.py")
        assert message == (
            "symbol: 'area' has several definitions in shapes.py: Shape.area (line 7), Square.area (line 16); "
            "pass one of them, or line"
        )
        message = await refusal(client, "definition", symbol="square", path="main.py", line=40)
        assert message == "line: 'square' does not occur at line 40 of main.py; it occurs at lines 3, 4"
        assert "does not occur in" in await refusal(client, "definition", symbol="other", path="main.py")
        assert "does not define 'A.b'" in await refusal(client, "definition", symbol="A.b", path="main.py")
        for path in ("../outside.py", "link.py", str(project.parent / "outside.py")):
            message = await refusal(client, "outline", path=path)
            assert message == f"path: expected a file inside {project}, got {path!r}"
        assert "does not exist" in await refusal(client, "outline", path="none.py")
        assert "no language server is configured for 'data.bin'" in await refusal(client, "outline", path="data.bin")
        assert "expected UTF-8" in await refusal(client, "outline", path="bad.py")
        (project / "bad.py").write_bytes(b"#" * 2000)
        assert "max_file_bytes" in await refusal(client, "outline", path="bad.py")


async def test_errors_are_reported_and_disappear(code_client: Connect, project: Path) -> None:
    (project / "wrong.py").write_text('x: int = "ä"\n')
    async with code_client() as client:
        found = await answer(client, "diagnostics", path="wrong.py")
        assert found.startswith("wrong.py:1: error: Type \"Literal['ä']\" is not assignable")
        (project / "wrong.py").write_text("x: int = 1\n")
        assert await answer(client, "diagnostics", path="wrong.py") == "nothing found"


async def test_files_that_change_are_noticed(code_client: Connect, project: Path) -> None:
    async with code_client(max_open_documents=2) as client:
        assert "class Square" in await answer(client, "outline", path="shapes.py")
        (project / "shapes.py").write_text("def circle() -> int:\n    return 1\n")
        assert await answer(client, "outline", path="shapes.py") == "shapes.py: 3 lines\n1-2: def circle() -> int:"
        (project / "new.py").write_text("from shapes import circle\n\nprint(circle())\n")
        found = await answer(client, "references", symbol="circle", path="shapes.py")
        assert found.splitlines() == [
            "new.py:1: from shapes import circle",
            "new.py:3: print(circle())",
            "shapes.py:1: def circle() -> int:",
        ]
        (project / "new.py").unlink()
        found = await answer(client, "references", symbol="circle", path="shapes.py")
        assert found == "shapes.py:1: def circle() -> int:"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_positions_count_as_the_server_does(encoding: str) -> None:
    line = "a😀äb"
    for column in range(len(line) + 1):
        assert column_of(line, units_before(line, column, encoding), encoding) == column
    assert column_of(line, 10**9, encoding) == len(line)
    assert units_before(line, 4, encoding) == (8 if encoding == "utf-8" else 5)
