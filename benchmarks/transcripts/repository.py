"""A repository explored and changed by a scripted client: ``python -m benchmarks.transcripts.repository``.

The script gives the same twelve tasks to mcptrio-fs with mcptrio-git and to the reference servers, with the calls that
a model would make of each, and prints the table of docs/plugins-compared.md.

The repository has mcptrio's sources and a short history. The script needs git, Node, and npm and PyPI the first time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio

from benchmarks.transcripts.scripted_client import FOLDER, Call, Task, Transcript, table, talk
from tests.node import find_node
from tests.servers.environment import install as install_python

__all__ = ["main", "measure", "run_ours"]

ROOT: Final = Path(__file__).resolve().parent.parent.parent
_ENCODING: Final = "mcptrio/schema/encoding.py"
_ROOM: Final = "mcptrio/capabilities"
_ROOM_FILES: Final = sorted(f"{FOLDER}/{_ROOM}/{each.name}" for each in (ROOT / _ROOM).glob("*.py"))
_HALF: Final = len(_ROOM_FILES) // 2
_ROWS: Final = "def limit(rows):\n    return rows[:100]\n\n\ndef page(rows):\n    return limit(rows)\n"


def _our_fs(tool: str, **arguments: Any) -> Call:
    return f"fs_{tool}", arguments


def _our_git(tool: str, **arguments: Any) -> Call:
    return f"git_{tool}", arguments


def _our_edit(old: str, new: str, **options: Any) -> Call:
    return _our_fs("edit_file", path="rows.py", edits=[{"old_text": old, "new_text": new, **options}])


def _their_fs(tool: str, path: str, **arguments: Any) -> Call:
    return tool, {"path": f"{FOLDER}/{path}", **arguments}


def _their_files(paths: list[str]) -> Call:
    return "read_multiple_files", {"paths": paths}


def _their_git(tool: str, **arguments: Any) -> Call:
    return f"git_{tool}", {"repo_path": FOLDER, **arguments}


def _their_edit(*edits: tuple[str, str]) -> Call:
    return _their_fs("edit_file", "rows.py", edits=[{"oldText": old, "newText": new} for old, new in edits])


TASKS: Final = (
    Task(
        "How is the package laid out?",
        ["capabilities"],
        [_our_fs("directory_tree", path="mcptrio", max_depth=2)],
        [_their_fs("directory_tree", "mcptrio"), _their_fs("list_directory", "mcptrio")],
    ),
    Task(
        "Where is `encode_value` defined?",
        ["def encode_value"],
        [_our_fs("grep", path="mcptrio", pattern="def encode_value")],
        [_their_fs("search_files", "mcptrio", pattern="**/*encod*.py"), _their_fs("read_text_file", _ENCODING)],
    ),
    Task(
        "Which code of `capabilities` calls it?",
        ["encode_value("],
        [_our_fs("grep", path=_ROOM, pattern="encode_value(", fixed_strings=True, context=2)],
        [
            _their_fs("list_directory", _ROOM),
            _their_files(_ROOM_FILES),
            _their_files(_ROOM_FILES[:_HALF]),
            *(_their_files(_ROOM_FILES[start : start + 4]) for start in range(0, len(_ROOM_FILES), 4)),
        ],
    ),
    Task(
        "What are the last requests in a log of 1.5 MB?",
        ["request 39999 was"],
        [_our_fs("read_text_file", path="server.log", start_line=-5)],
        [_their_fs("read_text_file", "server.log"), _their_fs("read_text_file", "server.log", tail=5)],
    ),
    Task(
        "Open a file with a typing mistake in its name",
        ["encode_value"],
        [_our_fs("read_text_file", path="mcptrio/schema/encodings.py"), _our_fs("read_text_file", path=_ENCODING)],
        [
            _their_fs("read_text_file", "mcptrio/schema/encodings.py"),
            _their_fs("list_directory", "mcptrio/schema"),
            _their_fs("read_text_file", _ENCODING),
        ],
    ),
    Task(
        "Change a line that the model remembers wrongly",
        ["+    return rows[:50]"],
        [_our_edit("return row[:100]", "return row[:50]"), _our_edit("return rows[:100]", "return rows[:50]")],
        [
            _their_edit(("return row[:100]", "return row[:50]")),
            _their_fs("read_text_file", "rows.py"),
            _their_edit(("return rows[:100]", "return rows[:50]")),
        ],
    ),
    Task(
        "Rename a function that occurs twice",
        ["+    return first(rows)"],
        [_our_edit("limit(", "first(", expected_replacements=2)],
        [_their_edit(("limit(", "first("), ("limit(", "first("))],
    ),
    Task(
        "What has changed?",
        ["+def first(rows):"],
        [_our_git("status"), _our_git("diff_unstaged")],
        [_their_git("status"), _their_git("diff_unstaged")],
    ),
    Task(
        "Commit it",
        ["ommitted"],
        [_our_git("add", files=["rows.py"]), _our_git("commit", message="Show fewer rows")],
        [_their_git("add", files=["rows.py"]), _their_git("commit", message="Show fewer rows")],
    ),
    Task(
        "What do the last ten commits say?",
        ["Write verse 3"],
        [_our_git("log")],
        [_their_git("log", max_count=10)],
    ),
    Task(
        "Which commit changed line 2 of `poem.txt`?",
        ["Write verse 1"],
        [_our_git("log", paths=["poem.txt"], line_range="2,2")],
        # Newest first, until the diff has the line.
        [
            _their_git("log", max_count=20),
            *(_their_git("show", revision=f"HEAD~{each}") for each in range(1, 12)),
        ],
        their_facts=["+verse 1"],
    ),
    Task(
        "Undo the commit, and keep the history",
        ["Revert"],
        [_our_git("revert", commit="HEAD"), _our_git("log", max_count=1)],
        [
            _their_git("show", revision="HEAD"),
            _their_edit(("first(", "limit("), ("first(", "limit("), ("rows[:50]", "rows[:100]")),
            _their_git("add", files=["rows.py"]),
            _their_git("commit", message='Revert "Show fewer rows"'),
            _their_git("log", max_count=1),
        ],
    ),
)
"""The references take absolute paths, and the folder of the repository with each call."""


def _prepare(folder: Path) -> None:
    """Make the repository."""
    shutil.copytree(ROOT / "mcptrio", folder / "mcptrio", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "rows.py").write_text(_ROWS)
    (folder / "server.log").write_text(
        "".join(f"2026-01-01T12:00:00 request {each} was served\n" for each in range(40_000))
    )
    _run(folder, "init", "--quiet", "--initial-branch=main")
    for name, value in {"user.name": "Ann", "user.email": "ann@example.com", "commit.gpgsign": "false"}.items():
        _run(folder, "config", name, value)
    _run(folder, "add", ".")
    _run(folder, "commit", "--quiet", "-m", "Import the sources")
    verses = ["title\n"]
    for number in range(1, 9):
        verses.append(f"verse {number}\n")
        (folder / "poem.txt").write_text("".join(verses))
        _run(folder, "add", "poem.txt")
        _run(folder, "commit", "--quiet", "-m", f"Write verse {number}\n\nThe verses before it stay as they are.")


def _run(folder: Path, *arguments: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, timeout=60, env=env)


async def run_ours(folder: Path) -> Transcript:
    """Do all tasks with our plugins, in a new repository."""
    repository = folder / "ours" / "project"
    repository.mkdir(parents=True)
    _prepare(repository)
    config = folder / "mcptrio.toml"
    config.write_text(
        f'[plugins.fs]\nfolders = ["{repository}"]\n[plugins.git]\nrepositories = ["{repository}"]\n', "utf-8"
    )
    command = (sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "fs", "--plugin", "git")
    return await talk([(*command, f"--config={config}")], [each.our_script for each in TASKS])


async def _run_theirs(folder: Path, node: Path, packages: Path, python: Path) -> Transcript:
    repository = folder / "theirs" / "project"
    repository.mkdir(parents=True)
    _prepare(repository)
    script = packages / "node_modules" / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
    commands = [
        (str(node), str(script), str(repository)),
        (str(python), "-m", "mcp_server_git", "--repository", str(repository)),
    ]
    return await talk(commands, [each.their_script for each in TASKS], folder=repository)


def measure() -> tuple[str, bool]:
    """Run all tasks. Return the table of docs/plugins-compared.md, and whether our plugins have done every task."""
    node = find_node()
    packages = node.install(ROOT / "benchmarks" / "references")
    python = install_python(ROOT / "tests" / "servers" / "reference-v2.txt", ("mcp_server_git.server",))
    with TemporaryDirectory(prefix="tmp") as folder:
        theirs = trio.run(_run_theirs, Path(folder), node.binary, packages, python)
        ours = trio.run(run_ours, Path(folder))
    columns = {"server-filesystem and mcp-server-git": theirs, "`mcptrio-fs` and `mcptrio-git`": ours}
    return "\n".join(table(TASKS, columns)), ours.total.is_answered


def main() -> int:
    """Print the table, and return 1 if ours leave a task undone."""
    written, is_done = measure()
    print(written)
    return int(not is_done)


if __name__ == "__main__":
    raise SystemExit(main())
