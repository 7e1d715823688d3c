"""docs/coming-from-*.md: both versions of the compared code run, each with its test.

Each section with code has two blocks, the other library's and ours. The blocks of all sections together are
``theirs`` and ``ours``; those of the section "A test" are the tests of these files. The fences name the language
``py``, because a ``python`` block must pass the type check alone, and these blocks do not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.node import find_node
from tests.processes import environment
from tests.servers.environment import install
from tests.test_readme import blocks_of
from tests.typing.test_programs import check

__all__: list[str] = []

DOCS = Path(__file__).resolve().parents[1] / "docs"
PINNED = Path(__file__).resolve().parent / "coming_from"


def in_this_python(folder: Path) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_theirs.py"]


def in_their_python(folder: Path) -> list[str]:
    return [
        str(install(PINNED / "fastmcp.txt", ["fastmcp"])),
        "-c",
        "import test_theirs; test_theirs.test_tools(); print('1 passed')",
    ]


def in_node(folder: Path) -> list[str]:
    node = find_node()
    (folder / "node_modules").symlink_to(node.install(PINNED) / "node_modules")
    return [str(node.binary), "--test", "--test-reporter=spec", "test_theirs.mjs"]


THEIRS: Mapping[str, tuple[Callable[[Path], list[str]], str, str]] = {
    "coming-from-python-sdk.md": (in_this_python, "py", "1 passed"),
    "coming-from-fastmcp.md": (in_their_python, "py", "1 passed"),
    "coming-from-typescript.md": (in_node, "mjs", "pass 1"),
}
"""By page: the command that runs their test, the suffix of their files, and the end of its output."""


def halves(page: str) -> dict[str, str]:
    """Return the four files of a page, by name."""
    ending = THEIRS[page][1]
    files = {f"theirs.{ending}": "", "ours.py": "", f"test_theirs.{ending}": "", "test_ours.py": ""}
    text = (DOCS / page).read_text("utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        code = [block.text for block in blocks_of(section, page) if block.language in ("py", "js")]
        if code:
            theirs, ours = code
            prefix = "test_" if section.startswith("A test\n") else ""
            files[f"{prefix}theirs.{ending}"] += theirs + "\n\n"
            files[f"{prefix}ours.py"] += ours + "\n\n"
    if last := re.search(r"contains the blocks above and ends with `(.*)`:", text):
        files[f"theirs.{ending}"] += last[1] + "\n"
    return files


def write(page: str, folder: Path) -> None:
    for name, text in halves(page).items():
        (folder / name).write_text(text)


def run(folder: Path, command: list[str]) -> str:
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment(PYTHONPATH=f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_guide_has_a_test() -> None:
    assert {page.name for page in DOCS.glob("coming-from-*.md")} == {*THEIRS}


@pytest.mark.parametrize("page", THEIRS)
def test_their_code_passes_its_test(tmp_path: Path, page: str) -> None:
    write(page, tmp_path)
    command, _, passed = THEIRS[page]

    assert passed in run(tmp_path, command(tmp_path))


@pytest.mark.parametrize("page", THEIRS)
def test_our_code_passes_its_test(tmp_path: Path, page: str) -> None:
    write(page, tmp_path)

    output = run(tmp_path, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_ours.py"])

    assert "1 passed" in output


def test_our_code_passes_the_type_check(tmp_path: Path) -> None:
    page = next(iter(THEIRS))
    write(page, tmp_path)

    assert {halves(each)["ours.py"] for each in THEIRS} == {halves(page)["ours.py"]}
    output = check(tmp_path / "ours.py", tmp_path / "test_ours.py", cache=tmp_path / "cache", path=tmp_path)
    assert "Success: no issues found" in output, output
