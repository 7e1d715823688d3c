"""Probes of the memory: storage, search, and the size of responses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from mcptrio import MCPTrioError
from plugin_probes.process import measured_call
from plugin_probes.trial import Answer, Probes, Talk, Trial

__all__ = ["GRAPH"]


def command(trial: Trial) -> tuple[str, ...]:
    return serve(trial, trial.make_folder("graph"))


def serve(trial: Trial, folder: Path, **settings: Any) -> tuple[str, ...]:
    if trial.references is not None:
        # Its only setting is a variable.
        return (
            "/usr/bin/env",
            f"MEMORY_FILE_PATH={folder / 'memory.jsonl'}",
            *trial.references.of_node("server-memory"),
        )
    return trial.ours({"file": str(folder / "memory.db"), **settings})


GRAPH = Probes(
    "memory",
    "`@modelcontextprotocol/server-memory` 2026.8.31",
    command,
    {},
    (
        "Any editor can read and change the reference's file; ours is an SQLite database that imports and exports such "
        "files.",
    ),
    [],
)


@GRAPH("Twenty concurrent `create_entities`, then a new process")
async def pipelined(trial: Trial) -> str:
    folder = trial.make_folder("graph")
    serving = serve(trial, folder)
    async with trial.talk(serving) as talk:
        answers = await _create(talk, [f"e{number}" for number in range(20)])
    async with trial.talk(serving) as talk:
        kept = await _entities(talk)
    return f"{sum(not each.is_error for each in answers)} reported as done, {len(kept)} kept"


@GRAPH("Two processes that share a file, twenty calls each")
async def two_processes(trial: Trial) -> str:
    folder = trial.make_folder("graph")
    first, second = serve(trial, folder), serve(trial, folder)
    answers: list[Answer] = []

    async def fill(talk: Talk, letter: str) -> None:
        for number in range(20):
            answers.extend(await _create(talk, [f"{letter}{number}"]))

    async with trial.talk(first) as one, trial.talk(second) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fill, one, "a")
            nursery.start_soon(fill, other, "b")
    async with trial.talk(first) as talk:
        kept = await _entities(talk)
    return f"{sum(not each.is_error for each in answers)} reported as done, {len(kept)} kept"


@GRAPH("A JSON Lines file with one invalid line (`import_file` of ours)")
async def malformed(trial: Trial) -> str:
    folder = trial.make_folder("graph")
    (folder / "memory.jsonl").write_text(f"{_line('Ann')}\n{{broken\n{_line('Ben')}\n")
    settings = {"import_file": str(folder / "memory.jsonl")} if trial.is_ours else {}
    async with trial.talk(serve(trial, folder, **settings)) as talk:
        answer = await talk.call("read_graph")
    if answer.is_error:
        return str(answer)
    return f"{len(answer.data['entities'])} of 2 entities are present"


@GRAPH("`read_graph` of 3,000 entities")
async def paging(trial: Trial) -> str:
    folder = trial.make_folder("graph")
    lines = "\n".join(_line(f"entity {number}", "some words " * 10) for number in range(3_000))
    (folder / "memory.jsonl").write_text(lines + "\n")
    settings = {"import_file": str(folder / "memory.jsonl")} if trial.is_ours else {}
    tool = "memory_read_graph" if trial.is_ours else "read_graph"
    serving = serve(trial, folder, **settings)
    got = await measured_call(serving, tool, {}, cwd=folder, env={})
    more = ", with a cursor for more" if b"next_cursor" in got.answer else ""
    return f"an answer of {got.size / 1000:,.0f} kB{more}"


@GRAPH("A search for two words that occur in different observations")
async def words(trial: Trial) -> str:
    async with trial.talk(command(trial)) as talk:
        entity = _entity(talk, "Ann", "lives in Berlin", "plays chess")
        await talk.call("create_entities", entities=[entity])
        found = await talk.call("search_nodes", query="berlin chess")
    return f"{len(found.data['entities'])} of 1 found"


@GRAPH("Only the names, from a graph with long observations")
async def names(trial: Trial) -> str:
    async with trial.talk(command(trial)) as talk:
        entity = _entity(talk, "Ann", "x" * 10_000)
        await talk.call("create_entities", entities=[entity])
        size = len((await talk.call("read_graph", fields=["name"])).text)
    return "possible" if size < 1_000 else "not possible: the observations are included"


@GRAPH("The creation of an entity, for a subscriber of `memory://knowledge-graph`")
async def subscriber(trial: Trial) -> str:
    async with trial.talk(command(trial)) as talk:
        try:
            async with talk.client.subscribe(["memory://knowledge-graph"]) as changes:
                await _create(talk, ["Ann"])
                with trio.move_on_after(5):
                    await changes.__anext__()
                    return "notified"
        except MCPTrioError as error:
            return str(Answer(str(error), is_error=True))
    return "not notified"


@GRAPH("The same, if another process that shares the file creates it")
async def distant(trial: Trial) -> str:
    folder = trial.make_folder("graph")
    async with trial.talk(serve(trial, folder)) as talk, trial.talk(serve(trial, folder)) as other:
        async with talk.client.subscribe(["memory://knowledge-graph"]) as changes:
            await _create(other, ["Ann"])
            with trio.move_on_after(5):
                await changes.__anext__()
                return "notified"
    return "not notified"


@GRAPH("An observation for an entity that does not exist")
async def unknown(trial: Trial) -> str:
    async with trial.talk(command(trial)) as talk:
        name = "entity_name" if _is_ours(talk) else "entityName"
        return str(await talk.call("add_observations", observations=[{name: "Nobody", "contents": ["x"]}]))


def _line(name: str, observation: str = "is there") -> str:
    return json.dumps({"type": "entity", "name": name, "entityType": "thing", "observations": [observation]})


def _is_ours(talk: Talk) -> bool:
    return f"{talk.prefix}create_entities" in talk.names


def _entity(talk: Talk, name: str, *observations: str) -> dict[str, Any]:
    """An entity as an argument: ours has names in snake case."""
    kind = "entity_type" if _is_ours(talk) else "entityType"
    return {"name": name, kind: "thing", "observations": list(observations)}


async def _create(talk: Talk, names: Sequence[str]) -> list[Answer]:
    """An entity a call, all at the same time."""
    answers: list[Answer] = []

    async def create(name: str) -> None:
        entity = _entity(talk, name, "is there")
        answers.append(await talk.call("create_entities", entities=[entity]))

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(create, name)
    return answers


async def _entities(talk: Talk) -> Sequence[Any]:
    found: Sequence[Any] = (await talk.call("read_graph")).data["entities"]
    return found
