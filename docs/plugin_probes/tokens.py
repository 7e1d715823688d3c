"""Tokens that a model reads: the definitions of all tools, and typical answers.

The script writes them as a table; a test runs ours again, and fails if one has grown by more than a tenth.
A token is four bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field

from benchmarks.transcripts.document import make_pdf
from plugin_probes import clocks, files, graph, pages, papers, repositories, thoughts
from plugin_probes.trial import Talk, Trial

__all__ = ["SAMPLES", "Sample"]

_TIMEOUT = 120.0
"""Seconds for a call; markitdown-mcp takes 3 for a PDF on an idle machine."""


@define(eq=False)
class Tokens:
    """The tokens of one side."""

    trial: Trial
    talk: Talk
    found: dict[str, int] = field(factory=dict)
    """Title -> tokens; 0 without such a tool."""

    async def definitions(self) -> None:
        sizes = [
            len(f"{tool.name}{tool.description or ''}".encode()) + len(orjson.dumps(tool.input_schema))
            async for tool in self.talk.client.tools()
        ]
        self.found[f"{self.trial.plugin}: definitions of all tools"] = sum(sizes) // 4
        self.found[f"{self.trial.plugin}: definitions, per tool"] = sum(sizes) // (4 * len(sizes))

    async def answer(
        self,
        title: str,
        tool: str,
        ours: Mapping[str, Any],
        theirs: Mapping[str, Any] | None = None,
        *,
        their_tool: str | None = None,
    ) -> None:
        """Call a tool.

        Args:
            theirs: the arguments for the reference, if they differ.
            their_tool: the tool of the reference, if it differs.
        """
        arguments = ours if self.trial.is_ours or theirs is None else theirs
        tool = tool if self.trial.is_ours or their_tool is None else their_tool
        has_tool = tool in self.talk.names or self.talk.prefix + tool in self.talk.names
        size = 0
        if has_tool:
            answer = await self.talk.call(tool, **arguments, timeout=_TIMEOUT)
            if answer.is_error:
                raise RuntimeError(f"{title}: expected an answer, got {answer.text}")
            size = max(1, len(answer.text.encode()) // 4)
        self.found[f"{self.trial.plugin}: {title}"] = size


Sample = Callable[[Trial], Awaitable[Mapping[str, int]]]


def _project(folder: Path) -> None:
    """Forty modules in four packages, and a log."""
    for number in range(40):
        path = folder / f"package_{number % 4}" / f"module_{number:02}.py"
        path.parent.mkdir(exist_ok=True)
        functions = (f"def function_{each}(value: int) -> int:\n    return value + {each}\n\n\n" for each in range(12))
        path.write_text(f'"""Module {number}."""\n\n\n' + "".join(functions))
    (folder / "server.log").write_text(
        "".join(f"2026-01-01 12:00 request {each} was served\n" for each in range(20_000))
    )


async def _files(trial: Trial) -> Mapping[str, int]:
    folder = trial.make_folder("files")
    _project(folder)
    module = str(folder / "package_0" / "module_00.py")
    async with trial.talk(files.serve(trial, folder)) as talk:
        tokens = Tokens(trial, talk)
        await tokens.definitions()
        await tokens.answer("list a directory of 10 files", "list_directory", {"path": str(folder / "package_0")})
        await tokens.answer("tree of 40 files", "directory_tree", {"path": str(folder)})
        await tokens.answer("read a module", "read_text_file", {"path": module})
        await tokens.answer("read a log of 800 kB", "read_text_file", {"path": str(folder / "server.log")})
        await tokens.answer("find 40 files by name", "search_files", {"path": str(folder), "pattern": "**/*.py"})
        await tokens.answer("find a line in 40 files", "grep", {"path": str(folder), "pattern": "function_7"})
        await tokens.answer(
            "change a line",
            "edit_file",
            {"path": module, "edits": [{"old_text": "value + 3", "new_text": "value - 3"}]},
            {"path": module, "edits": [{"oldText": "value + 3", "newText": "value - 3"}]},
        )
    return tokens.found


async def _repositories(trial: Trial) -> Mapping[str, int]:
    folder = repositories.make_repository(trial)
    _project(folder)
    repositories.git(folder, "add", ".")
    for number in range(10):
        (folder / "poem.txt").write_text(f"Roses are red, {number} times\n" * (number + 1))
        repositories.git(folder, "commit", "-a", "-m", f"Write verse {number}\n\nThe verses before it stay.")
        repositories.git(folder, "branch", f"topic-{number}")
    for path in sorted(folder.glob("package_1/*.py")):
        path.write_text(path.read_text().replace("value", "number"))
    where = {"repo_path": str(folder)}
    async with trial.talk(repositories.serve(trial, folder)) as talk:
        tokens = Tokens(trial, talk)
        await tokens.definitions()
        await tokens.answer("status with ten changed files", "git_status", where)
        await tokens.answer("the last ten commits", "git_log", where)
        await tokens.answer("eleven branches", "git_branch", {**where, "branch_type": "local"})
        await tokens.answer("show a commit", "git_show", {**where, "revision": "HEAD"})
        await tokens.answer("diff of ten changed files", "git_diff_unstaged", where)
    return tokens.found


async def _graph(trial: Trial) -> Mapping[str, int]:
    kind, relation = ("entity_type", "relation_type") if trial.is_ours else ("entityType", "relationType")
    entities = [
        {"name": f"person {each}", kind: "person", "observations": [f"likes tea {each}", "plays chess", "lives here"]}
        for each in range(50)
    ]
    relations = [{"from": f"person {each}", "to": "person 0", relation: "knows"} for each in range(1, 50)]
    async with trial.talk(graph.serve(trial, trial.make_folder("graph"))) as talk:
        tokens = Tokens(trial, talk)
        await tokens.definitions()
        await tokens.answer("create 50 entities", "create_entities", {"entities": entities})
        await tokens.answer("create 49 relations", "create_relations", {"relations": relations})
        await tokens.answer("read a graph of 50 entities", "read_graph", {})
        await tokens.answer("search for one entity", "search_nodes", {"query": "likes tea 17"})
    return tokens.found


async def _pages(trial: Trial) -> Mapping[str, int]:
    with pages.serve_site() as site:
        async with trial.talk(pages.command(trial)) as talk:
            tokens = Tokens(trial, talk)
            await tokens.definitions()
            await tokens.answer("fetch a short page", "fetch", {"url": site.url("/page")})
    return tokens.found


async def _thoughts(trial: Trial) -> Mapping[str, int]:
    thought = {"thought": "Begin", "thoughtNumber": 1, "totalThoughts": 3, "nextThoughtNeeded": True}
    async with trial.talk(thoughts.command(trial)) as talk:
        tokens = Tokens(trial, talk)
        await tokens.definitions()
        await tokens.answer("a thought", "sequentialthinking", thought)
    return tokens.found


async def _clocks(trial: Trial) -> Mapping[str, int]:
    times = {"source_timezone": "Europe/Berlin", "time": "12:30", "target_timezone": "Asia/Tokyo"}
    async with trial.talk(clocks.command(trial)) as talk:
        tokens = Tokens(trial, talk)
        await tokens.definitions()
        await tokens.answer("the time", "get_current_time", {"timezone": "Europe/Berlin"})
        await tokens.answer("convert a time", "convert_time", times)
    return tokens.found


async def _papers(trial: Trial) -> Mapping[str, int]:
    folder = trial.make_folder("papers")
    (folder / "voyage.pdf").write_bytes(make_pdf())
    whole = {"uri": (folder / "voyage.pdf").as_uri()}
    async with trial.talk(papers.serve(trial, folder)) as talk:
        tokens = Tokens(trial, talk)
        await tokens.definitions()
        for title, tool, arguments in (
            ("read a PDF of 40 pages", "read_document", {}),
            ("read pages 9 and 10 of it", "read_document", {"pages": "9-10"}),
            ("find a sentence in it", "search_document", {"query": "33 seconds"}),
        ):
            ours = {"path": "voyage.pdf", **arguments}
            await tokens.answer(title, tool, ours, whole, their_tool="convert_to_markdown")
    return tokens.found


SAMPLES: Mapping[str, Sample] = {
    "fs": _files,
    "git": _repositories,
    "fetch": _pages,
    "memory": _graph,
    "thinking": _thoughts,
    "time": _clocks,
    "documents": _papers,
}
"""By the name of our plugin."""
