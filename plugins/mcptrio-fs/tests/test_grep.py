"""The search of file contents."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from mcptrio_fs import Config
from mcptrio_fs.access import FileAccess
from mcptrio_fs.content_search import ContentSearch
from mcptrio_fs.files import Files
from mcptrio_fs.line_pattern import LinePattern
from mcptrio_fs.patterns import GlobPattern
from mcptrio_fs.sandbox import Sandbox
from mcptrio_fs.sizes import MAX_TEXT_BYTES

from mcptrio import Client, Server, ToolError, connect
from mcptrio.types import TextContent


def go_on() -> None:
    """Continue: the call is not cancelled."""


async def ask(client: Client, /, **arguments: Any) -> str:
    result = await client.call_tool("grep", arguments)
    [block] = result.content
    assert isinstance(block, TextContent)
    assert bool(result.is_error) == block.text.startswith(("expected ", "access denied", "not found", "the regular "))
    return block.text


async def grep(folder: Path, /, *, settings: dict[str, Any] | None = None, **arguments: Any) -> str:
    server = Server(plugins=[Files(FileAccess(Config(folders=(folder,), **(settings or {}))))])
    with trio.fail_after(30):
        async with connect(server) as client:
            return await ask(client, **{"path": ".", **arguments})


def lines(pattern: str, text: str, **options: bool) -> list[int]:
    found = LinePattern.parse(pattern, **{"ignore_case": False, "fixed_strings": False, **options})
    if found.needed not in text.encode():
        return []
    return [number for number, _ in found.matches(text, 0, "f", go_on)]


@pytest.fixture
def project(inside: Path) -> Path:
    (inside / "src").mkdir()
    (inside / "src/a.py").write_text("import os\n\ndef run():\n    return os.name\n")
    (inside / "src/b.txt").write_text("Import it.\r\nrun(1)\r\n")
    (inside / "c.py").write_text("run(2)")
    return inside


async def test_lines_are_below_their_file(project: Path) -> None:
    assert await grep(project, pattern=r"run\(") == "c.py\n1:run(2)\nsrc/a.py\n3:def run():\nsrc/b.txt\n2:run(1)"
    assert await grep(project, path="src/a.py", pattern="os$") == "src/a.py\n1:import os"
    assert await grep(project, path=str(project / "src"), pattern="name") == (
        f"{project}/src/a.py\n4:    return os.name"
    )


async def test_options_narrow_the_search(project: Path) -> None:
    assert await grep(project, pattern="^import", ignore_case=True, include=["*.txt"]) == "src/b.txt\n1:Import it."
    assert await grep(project, pattern="run(", fixed_strings=True, exclude=["src"]) == "c.py\n1:run(2)"
    assert await grep(project, pattern="RUN(", fixed_strings=True, ignore_case=True, include=["src/**/*.py"]) == (
        "src/a.py\n3:def run():"
    )
    assert await grep(project, pattern="run", include="*.md") == "[no matches in 0 files]"


async def test_context_surrounds_a_match_once(inside: Path) -> None:
    (inside / "a").write_text("".join(f"{number}\n" for number in range(1, 21)))

    assert await grep(inside, pattern="^(3|5|20)$", context=1) == "a\n2-2\n3:3\n4-4\n5:5\n6-6\n--\n19-19\n20:20"
    assert await grep(inside, pattern="^(3|4)$", context=3) == "a\n1-1\n2-2\n3:3\n4:4\n5-5\n6-6\n7-7"


@pytest.mark.parametrize("limit", [1, 7, 200])
async def test_pages_together_are_the_whole(inside: Path, limit: int) -> None:
    expected = []
    for name in ("a", "b/c", "b.d", "b/e/f"):
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_text("x\nhit\n" * 10)
    for name in ("a", "b.d", "b/c", "b/e/f"):
        expected += [f"{name}:{number}" for number in range(2, 21, 2)]
    server = Server(plugins=[Files(FileAccess(Config(folders=(inside,))))])
    seen: list[str] = []
    cursor = ""
    async with connect(server) as client:
        while True:
            text = await ask(client, path=".", pattern="hit", limit=limit, cursor=cursor)
            name = ""
            for line in text.splitlines():
                if line.endswith(":hit"):
                    seen.append(f"{name}:{line.partition(':')[0]}")
                else:
                    name = line
            note = re.search(r"; continue with cursor=(\S+)\]$", text)
            if note is None:
                break
            cursor = note[1]

    assert sorted(seen) == sorted(expected)
    assert len(seen) == len(expected)


async def test_answer_is_bounded_by_its_size(inside: Path) -> None:
    for number in range(30):
        (inside / f"{number:02}").write_text(f"hit {'x' * 5000}\n" * 100)
    text = await grep(inside, pattern="hit", limit=10_000)

    assert MAX_TEXT_BYTES // 2 < len(text) < MAX_TEXT_BYTES + 500
    assert text.splitlines()[1].endswith("xxx…")
    assert re.search(r"\[\d+ files searched; continue with cursor=\d+:\d\d\]$", text)


async def test_long_line_is_shown_around_its_match(inside: Path) -> None:
    (inside / "min.js").write_text("a" * 5000 + "needle" + "b" * 5000)

    assert await grep(inside, pattern="needle") == f"min.js\n1:…{'a' * 100}needle{'b' * 194}…"


async def test_other_files_are_left_out(inside: Path, outside: Path) -> None:
    (inside / ".git").mkdir()
    (inside / ".git/config").write_text("secret")
    (inside / "binary").write_bytes(b"secret\0")
    (inside / "large").write_text("secret" * 200)
    (inside / "denied").write_text("secret")
    (inside / "link").symlink_to(outside / "secret.txt")
    (inside / "folder").symlink_to(outside)
    os.mkfifo(inside / "pipe")
    settings = {"max_read_bytes": 1000, "deny": ["denied"]}

    text = await grep(inside, pattern="secret", settings=settings)
    assert text == (
        "[no matches in 0 files]\n[files larger than 1000 bytes, which were not searched: 1]\n"
        "[files and directories that could not be read: 1]"
    )
    assert await grep(inside, path=".git", pattern="secret") == ".git/config\n1:secret"
    assert "leads outside the allowed" in await grep(inside, path="link", pattern="secret")
    assert "expected a file or directory" in await grep(inside, path="pipe", pattern="secret")
    for cursor in ("0:denied", "0:../secret.txt", "0:folder/secret.txt", "x:a", "0:a//b", "0", "9999999999:a"):
        answer = await grep(inside, pattern="secret", settings=settings, cursor=cursor)
        assert "the secret" not in answer
        assert answer.startswith(("expected the cursor", "[no more matches"))


async def test_number_of_entries_bounds_a_call(project: Path) -> None:
    text = await grep(project, pattern="return", settings={"max_visited": 2})
    assert text == "[1 files searched; continue with cursor=-1:src]"
    assert await grep(project, pattern="return", cursor="-1:src") == "src/a.py\n4:    return os.name"


async def test_invalid_patterns_are_refused_with_the_reason(project: Path) -> None:
    assert "missing ) at position" in await grep(project, pattern="run(")
    assert "fixed_strings=true searches for it as it is" in await grep(project, pattern="run(")
    for pattern in ("", "a\nb", "x" * 1001):
        assert "expected a pattern of 1 to 1000 characters" in await grep(project, pattern=pattern)


async def test_catastrophic_expression_is_refused_in_time(inside: Path) -> None:
    (inside / "a").write_text("x\n" + "a" * 40 + "!\n")
    began = time.monotonic()

    assert (await grep(inside, pattern=r"^(a|a)*$")).startswith(
        "the regular expression took longer than 1 s on line 2 of a; simplify it"
    )
    assert time.monotonic() - began < 10


async def test_hostile_expressions_compile_in_little_memory(inside: Path) -> None:
    (inside / "a").write_text("a" * 100_000 + "\n")
    began = time.monotonic()
    for pattern in ("(?:(?:a{0,1000}){0,1000}){0,1000}b", "(" * 400 + ")" * 400, "(a?){500}a{500}b", "[^b]*[^c]*d"):
        await grep(inside, pattern=pattern)
    assert time.monotonic() - began < 25


def test_search_that_takes_too_long_returns_a_cursor(sandbox: Sandbox, project: Path) -> None:
    search = ContentSearch(
        sandbox=sandbox,
        start=str(project),
        shown=".",
        pattern=LinePattern.parse("run", ignore_case=False, fixed_strings=False),
        included=[],
        excluded=[],
        context=0,
        limit=10,
        max_visited=1000,
        max_file_bytes=1000,
        max_bytes=1000,
        max_seconds=-1,
    )

    assert not search.advance(1, go_on)
    assert search.next_cursor == "0:c.py"


def test_cancelled_search_leaves_no_descriptor(sandbox: Sandbox, project: Path) -> None:
    class Cancelled(Exception):
        """The exception of a cancelled checkpoint."""

    def stop() -> None:
        raise Cancelled

    search = ContentSearch(
        sandbox=sandbox,
        start=str(project),
        shown=".",
        pattern=LinePattern.parse("run", ignore_case=False, fixed_strings=False),
        included=[GlobPattern.parse("**/*.py")],
        excluded=[],
        context=0,
        limit=10,
        max_visited=1000,
        max_file_bytes=1000,
        max_bytes=1000,
    )
    before = os.listdir("/proc/self/fd")
    with pytest.raises(Cancelled):
        search.advance(1, stop)
    assert os.listdir("/proc/self/fd") == before


@given(
    text=st.text("ab\n", max_size=40),
    pattern=st.sampled_from(
        [
            "a",
            "ab?",
            "^a",
            "b$",
            "^$",
            "a+b",
            "a.b",
            r"\ba",
            "[^a]",
            "(a|b)b",
            "a{2}",
            r"(?=a)b",
            r"a\Z",
            "aa*+b",
            "a.*b",
        ]
    ),
    ignore_case=st.booleans(),
)
def test_search_in_windows_matches_search_by_lines(text: str, pattern: str, ignore_case: bool) -> None:
    # Python 3.11's own re has possessive repetitions too.
    expected = [number for number, line in enumerate(text.split("\n")) if re.search(pattern, line)]

    assert lines(pattern, text, ignore_case=ignore_case) == expected


def test_windows_end_at_line_ends() -> None:
    text = "\n".join(["x" * 70_000, "hit", *["y" * 100] * 2000, "hit", "z" * 70_000, "hit"])

    for pattern in ("hit", "h.t", "(hit|no)", r"(?<=h)it"):
        assert lines(pattern, text) == [1, 2002, 2004]


def test_required_text_is_in_every_match() -> None:
    for pattern, text in (
        (r"def run\(", "def run("),
        ("ab?cd", "cd"),
        (r"a\.b", "a.b"),
        (r"x\d+yz", "yz"),
        ("a|b", ""),
        ("(ab)", ""),
        ("a{2}", ""),
        (r"\x41bc", ""),
        ("abc+", "ab"),
        ("[ab]c", ""),
    ):
        assert LinePattern.parse(pattern, ignore_case=False, fixed_strings=False).text == text
    with pytest.raises(ToolError):
        LinePattern.parse("[", ignore_case=False, fixed_strings=False)
