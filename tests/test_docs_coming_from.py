"""docs/coming-from-*.md: both halves of the code that they compare run, each with its test.

Each section with Python code has two blocks, the other library's and ours. The blocks of all sections together are
``theirs.py`` and ``ours.py``; those of the section "A test" are the tests of these files.
The fences name the language ``py``: a ``python`` block has to have the right types alone, and these blocks do not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment
from tests.test_readme import blocks_of
from tests.typing.test_programs import check

__all__: list[str] = []

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coming-from-python-sdk.md"


def halves() -> dict[str, str]:
    """The four files of the page, by name."""
    files = {"theirs.py": "", "ours.py": "", "test_theirs.py": "", "test_ours.py": ""}
    for section in re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE):
        code = [block.text for block in blocks_of(section, PAGE.name) if block.language == "py"]
        if code:
            theirs, ours = code
            prefix = "test_" if section.startswith("A test\n") else ""
            files[f"{prefix}theirs.py"] += theirs + "\n\n"
            files[f"{prefix}ours.py"] += ours + "\n\n"
    return files


@pytest.mark.parametrize("half", ["theirs", "ours"])
def test_code_passes_its_test(tmp_path: Path, half: str) -> None:
    for name, text in halves().items():
        (tmp_path / name).write_text(text)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{half}.py"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_our_code_has_right_types(tmp_path: Path) -> None:
    files = [tmp_path / "ours.py", tmp_path / "test_ours.py"]
    for file in files:
        file.write_text(halves()[file.name])

    said = check(*files, cache=tmp_path / "cache", path=tmp_path)

    assert "Success: no issues found" in said, said
