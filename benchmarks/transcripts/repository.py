"""A repository explored and changed by a scripted client: ``python -m benchmarks.transcripts.repository``.

The script gives the same twelve tasks to mcptrio-fs with mcptrio-git and to the reference servers, and prints the table
of docs/plugins-compared.md. Per answer it has a budget of 10,000 tokens: it discards a longer answer, as host
applications do, and asks again for less, which counts as a refused call. For each task it writes the calls that a model
would write for these servers, stops at the answer with the fact, and counts what the model writes and reads.

The repository has mcptrio's sources and a short history. The script needs git, Node, and npm and PyPI the first time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson
import trio
from attrs import define, frozen

from mcptrio import Client, Command, MCPTrioError, connect
from mcptrio.types import TextContent
from tests.node import find_node
from tests.servers.environment import install as install_python

__all__ = ["Tally", "main", "measure", "run_ours"]

ROOT: Final = Path(__file__).resolve().parent.parent.parent
_BUDGET: Final = 10_000
"""Tokens of one answer."""
_BYTES_PER_TOKEN: Final = 4
_FILE: Final = "mcptrio/schema/encoding.py"
_ROWS: Final = "def limit(rows):\n    return rows[:100]\n\n\ndef page(rows):\n    return limit(rows)\n"

Call = tuple[str, str, dict[str, Any]]
"""The server, the tool, the arguments."""


@frozen
class Task:
    """A task, the calls for both sides, and a text that an answer must contain."""

    title: str
    fact: str
    ours: Sequence[Call]
    theirs: Sequence[Call]
    their_fact: str = ""
    """The text for the references, if another."""


def _fs(tool: str, **arguments: Any) -> Call:
    return "fs", tool, arguments


def _git(tool: str, **arguments: Any) -> Call:
    return "git", tool, arguments


def tasks(folder: Path) -> Sequence[Task]:
    """The tasks for a repository in this folder. Calls of the references name the folder each time, as they must."""
    at = {"repo_path": str(folder)}

    def path(name: str) -> str:
        return str(folder / name)

    rooms = sorted(path(f"mcptrio/capabilities/{each.name}") for each in (folder / "mcptrio/capabilities").glob("*.py"))
    half = len(rooms) // 2
    return (
        Task(
            "How is the package laid out?",
            "capabilities",
            [_fs("directory_tree", path="mcptrio", max_depth=2)],
            [_fs("directory_tree", path=path("mcptrio")), _fs("list_directory", path=path("mcptrio"))],
        ),
        Task(
            "Where is `encode_value` defined?",
            "def encode_value",
            [_fs("grep", path="mcptrio", pattern="def encode_value")],
            [
                _fs("search_files", path=path("mcptrio"), pattern="**/*encod*.py"),
                _fs("read_text_file", path=path(_FILE)),
            ],
        ),
        Task(
            "Which code of `capabilities` calls it?",
            "encode_value(",
            [_fs("grep", path="mcptrio/capabilities", pattern="encode_value(", fixed_strings=True, context=2)],
            [
                _fs("list_directory", path=path("mcptrio/capabilities")),
                _fs("read_multiple_files", paths=rooms),
                _fs("read_multiple_files", paths=rooms[:half]),
                *(_fs("read_multiple_files", paths=rooms[start : start + 4]) for start in range(0, len(rooms), 4)),
            ],
        ),
        Task(
            "What are the last requests in a log of 1.5 MB?",
            "request 39999 was",
            [_fs("read_text_file", path="server.log", start_line=-5)],
            [_fs("read_text_file", path=path("server.log")), _fs("read_text_file", path=path("server.log"), tail=5)],
        ),
        Task(
            "Open a file with a typing mistake in its name",
            "encode_value",
            [_fs("read_text_file", path="mcptrio/schema/encodings.py"), _fs("read_text_file", path=_FILE)],
            [
                _fs("read_text_file", path=path("mcptrio/schema/encodings.py")),
                _fs("list_directory", path=path("mcptrio/schema")),
                _fs("read_text_file", path=path(_FILE)),
            ],
        ),
        Task(
            "Change a line that the model remembers wrongly",
            "+    return rows[:50]",
            [
                _fs("edit_file", path="rows.py", edits=[_edit("return row[:100]", "return row[:50]")]),
                _fs("edit_file", path="rows.py", edits=[_edit("return rows[:100]", "return rows[:50]")]),
            ],
            [
                _fs("edit_file", path=path("rows.py"), edits=[_their_edit("return row[:100]", "return row[:50]")]),
                _fs("read_text_file", path=path("rows.py")),
                _fs("edit_file", path=path("rows.py"), edits=[_their_edit("return rows[:100]", "return rows[:50]")]),
            ],
        ),
        Task(
            "Rename a function that occurs twice",
            "+    return first(rows)",
            [_fs("edit_file", path="rows.py", edits=[{**_edit("limit(", "first("), "expected_replacements": 2}])],
            [_fs("edit_file", path=path("rows.py"), edits=[_their_edit("limit(", "first(")] * 2)],
        ),
        Task(
            "What has changed?",
            "+def first(rows):",
            [_git("git_status"), _git("git_diff_unstaged")],
            [_git("git_status", **at), _git("git_diff_unstaged", **at)],
        ),
        Task(
            "Commit it",
            "ommitted",
            [_git("git_add", files=["rows.py"]), _git("git_commit", message="Show fewer rows")],
            [
                _git("git_add", **at, files=["rows.py"]),
                _git("git_commit", **at, message="Show fewer rows"),
            ],
        ),
        Task(
            "What do the last ten commits say?",
            "Write verse 3",
            [_git("git_log")],
            [_git("git_log", **at, max_count=10)],
        ),
        Task(
            "Which commit changed line 2 of `poem.txt`?",
            "Write verse 1",
            [_git("git_log", paths=["poem.txt"], line_range="2,2")],
            # Newest first, until the diff has the line.
            [
                _git("git_log", **at, max_count=20),
                *(_git("git_show", **at, revision=f"HEAD~{each}") for each in range(1, 12)),
            ],
            "+verse 1",
        ),
        Task(
            "Undo the commit, and keep the history",
            "Revert",
            [_git("git_revert", commit="HEAD"), _git("git_log", max_count=1)],
            [
                _git("git_show", **at, revision="HEAD"),
                _fs(
                    "edit_file",
                    path=path("rows.py"),
                    edits=[*[_their_edit("first(", "limit(")] * 2, _their_edit("rows[:50]", "rows[:100]")],
                ),
                _git("git_add", **at, files=["rows.py"]),
                _git("git_commit", **at, message='Revert "Show fewer rows"'),
                _git("git_log", **at, max_count=1),
            ],
        ),
    )


def _edit(old: str, new: str) -> dict[str, Any]:
    return {"old_text": old, "new_text": new}


def _their_edit(old: str, new: str) -> dict[str, Any]:
    return {"oldText": old, "newText": new}


@define
class Tally:
    """The calls and tokens of a task on one side."""

    calls: int = 0
    refused: int = 0
    tokens: int = 0
    is_done: bool = False

    def __str__(self) -> str:
        refused = f", {self.refused} refused" if self.refused else ""
        return f"{self.tokens:,} in {self.calls}{refused}{'' if self.is_done else ', not done'}"


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


def _tokens(text: bytes) -> int:
    return -(-len(text) // _BYTES_PER_TOKEN)


async def _do(clients: Mapping[str, Client], prefixes: Mapping[str, str], calls: Sequence[Call], fact: str) -> Tally:
    tally = Tally()
    for server, tool, arguments in calls:
        tally.calls += 1
        tally.tokens += _tokens(orjson.dumps(arguments))
        try:
            result = await clients[server].call_tool(prefixes[server] + tool, arguments)
        except MCPTrioError as error:
            tally.refused += 1
            tally.tokens += _tokens(str(error).encode())
            continue
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        size = _tokens(text.encode())
        is_refused = bool(result.is_error) or size > _BUDGET
        tally.refused += is_refused
        # A client that discards an answer for its size gives the model a sentence instead.
        tally.tokens += min(size, 30) if size > _BUDGET else size
        if fact in text and not is_refused:
            tally.is_done = True
            break
    return tally


async def _definitions(clients: Mapping[str, Client]) -> int:
    size = 0
    for client in {id(each): each for each in clients.values()}.values():
        async for tool in client.tools():
            size += len(f"{tool.name}{tool.description or ''}".encode()) + len(orjson.dumps(tool.input_schema))
    return size // _BYTES_PER_TOKEN


@asynccontextmanager
async def _connected(commands: Mapping[str, Sequence[str]]) -> AsyncIterator[Mapping[str, Client]]:
    async with AsyncExitStack() as stack:
        found: dict[Sequence[str], Client] = {}
        for command in commands.values():
            if command not in found:
                found[command] = await stack.enter_async_context(connect(Command(args=command, stderr="drop")))
        yield {server: found[command] for server, command in commands.items()}


async def run_ours(folder: Path) -> tuple[int, list[Tally]]:
    """Do all tasks with our plugins. Return the tokens of the definitions, and what each task took."""
    repository = folder / "ours" / "project"
    repository.mkdir(parents=True)
    _prepare(repository)
    config = folder / "mcptrio.toml"
    config.write_text(
        f'[plugins.fs]\nfolders = ["{repository}"]\n[plugins.git]\nrepositories = ["{repository}"]\n', "utf-8"
    )
    command = (sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "fs", "--plugin", "git")
    command = (*command, f"--config={config}")
    async with _connected({"fs": command, "git": command}) as clients:
        size = await _definitions(clients)
        prefixes = {"fs": "fs_", "git": ""}
        return size, [await _do(clients, prefixes, task.ours, task.fact) for task in tasks(repository)]


async def _run_theirs(folder: Path, node: Path, packages: Path, python: Path) -> tuple[int, list[Tally]]:
    repository = folder / "theirs" / "project"
    repository.mkdir(parents=True)
    _prepare(repository)
    script = packages / "node_modules" / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
    commands = {
        "fs": (str(node), str(script), str(repository)),
        "git": (str(python), "-m", "mcp_server_git", "--repository", str(repository)),
    }
    async with _connected(commands) as clients:
        size = await _definitions(clients)
        prefixes = {"fs": "", "git": ""}
        return size, [
            await _do(clients, prefixes, task.theirs, task.their_fact or task.fact) for task in tasks(repository)
        ]


def _total(size: int, tallies: Sequence[Tally]) -> Tally:
    return Tally(
        calls=sum(each.calls for each in tallies),
        refused=sum(each.refused for each in tallies),
        tokens=size + sum(each.tokens for each in tallies),
        is_done=all(each.is_done for each in tallies),
    )


def measure() -> tuple[str, bool]:
    """Run all. Return the table of docs/plugins-compared.md, and whether ours have done every task."""
    node = find_node()
    packages = node.install(ROOT / "benchmarks" / "references")
    python = install_python(ROOT / "tests" / "servers" / "reference-v2.txt", ("mcp_server_git.server",))
    with TemporaryDirectory(prefix="tmp") as folder:
        their_size, theirs = trio.run(_run_theirs, Path(folder), node.binary, packages, python)
        our_size, ours = trio.run(run_ours, Path(folder))
        titles = [task.title for task in tasks(Path(folder))]
    lines = [
        "| tokens in calls | server-filesystem and mcp-server-git | `mcptrio-fs` and `mcptrio-git` |",
        "| --- | --- | --- |",
        f"| definitions of the tools | {their_size:,} | {our_size:,} |",
        *(f"| {title} | {their} | {our} |" for title, their, our in zip(titles, theirs, ours, strict=True)),
        f"| **all** | **{_total(their_size, theirs)}** | **{_total(our_size, ours)}** |",
    ]
    return "\n".join(lines), all(each.is_done for each in ours)


def main() -> int:
    """Print the table, and return 1 if ours leave a task undone."""
    table, is_done = measure()
    print(table)
    return int(not is_done)


if __name__ == "__main__":
    raise SystemExit(main())
