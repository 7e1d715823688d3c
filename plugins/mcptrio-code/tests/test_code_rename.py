"""The tool that renames, with pyright and with the fake language server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mcptrio_code.edits import read_edits
from mcptrio_code.folders import CodeFolders
from mcptrio_code.messages import TextEdit, TextPosition, TextRange

from mcptrio import ToolError

from .conftest import MAIN, SHAPES, Connect, answer, refusal

DIFF = """\
--- a/main.py
+++ b/main.py
@@ -1,5 +1,5 @@
-from shapes import Square
+from shapes import Quadrat

-smile = "😀ä"; square = Square(2)
+smile = "😀ä"; square = Quadrat(2)
 print(smile, square.area())

--- a/shapes.py
+++ b/shapes.py
@@ -10,5 +10,5 @@


-class Square(Shape):
+class Quadrat(Shape):
     def __init__(self, side: int) -> None:
         self.side = side
[3 places in 2 files"""


async def test_rename_is_shown_and_then_made(code_client: Connect, project: Path) -> None:
    (project / "main.py").chmod(0o640)
    rename = {"symbol": "Square", "path": "shapes.py", "new_name": "Quadrat"}
    async with code_client() as client:
        assert _stripped(await answer(client, "rename", **rename)) == DIFF + " would change with apply=true]"
        assert (project / "main.py").read_text() == MAIN
        assert _stripped(await answer(client, "rename", **rename, apply=True)) == DIFF + " changed]"
        assert (project / "main.py").read_text() == MAIN.replace("Square", "Quadrat")
        assert (project / "shapes.py").read_text() == SHAPES.replace("Square", "Quadrat")
        assert (project / "main.py").stat().st_mode & 0o777 == 0o640
        assert "does not occur" in await refusal(client, "rename", **rename)
        assert set(os.listdir(project)) == {"main.py", "shapes.py", "pyrightconfig.json"}


async def test_read_only_plugin_does_not_rename(code_client: Connect) -> None:
    async with code_client(read_only=True) as client:
        assert "rename" not in {tool.name async for tool in client.tools()}


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("outside", "outside.py would change too, which is outside"),
        ("deletes", "wants to create, rename or delete a file"),
        ("overlaps", "the edits of the language server overlap in shapes.py"),
        ("backwards", "the edits of the language server overlap in shapes.py"),
        ("not-a-file", "'untitled:x', which is not a file"),
        ("many", "expected changes of at most 10000 places in 200 files, got "),
        ("nothing", "no edits to rename 'UNIT'"),
    ],
)
async def test_strange_edit_is_refused_as_a_whole(fake_client: Connect, project: Path, mode: str, message: str) -> None:
    outside = project.parent / "outside.py"
    outside.write_text("x = 1\n")
    async with fake_client(mode) as client:
        rename = {"symbol": "UNIT", "path": "shapes.py", "line": 3, "new_name": "x", "apply": True}
        assert message in await refusal(client, "rename", **rename)
    assert (project / "shapes.py").read_text() == SHAPES
    assert outside.read_text() == "x = 1\n"


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 6), ("utf-16", 3)])
def test_edit_keeps_line_ends_and_the_byte_order_mark(tmp_path: Path, encoding: str, column: int) -> None:
    path = tmp_path.resolve() / "a.py"
    path.write_bytes("\ufeffone\r\nä😀b\rend\x0c\n".encode())
    folders = CodeFolders((path.parent,), 1000)
    place = TextPosition(1, column)
    [edit] = read_edits(folders, {str(path): [TextEdit(TextRange(place, place), "NEW")]}, encoding)
    folders.replace(str(path), edit.source, edit.source.encode(edit.text))
    assert path.read_bytes().decode() == "\ufeffone\r\nä😀NEWb\rend\x0c\n"
    with pytest.raises(ToolError, match="has changed in the meantime"):
        folders.replace(str(path), edit.source, b"")


def _stripped(diff: str) -> str:
    """Return a diff without white space at the ends of lines."""
    return "\n".join(line.rstrip() for line in diff.split("\n"))
