"""Probes of sequential thinking: separation of users, limits, hints."""

from __future__ import annotations

from typing import Any

from mcptrio.errors import RemoteProtocolError
from plugin_probes.trial import Answer, Probes, Talk, Trial, counted

__all__ = ["THOUGHTS"]

_SESSIONS = "2025-11-25"
"""The last revision with sessions, and the newest that the reference speaks."""


def command(trial: Trial) -> tuple[str, ...]:
    if trial.references is not None:
        return trial.references.of_node("server-sequential-thinking")
    return trial.ours({})


THOUGHTS = Probes(
    "thinking",
    "`@modelcontextprotocol/server-sequential-thinking` 2026.8.31",
    command,
    {},
    (
        "Ours keeps the last 500 thoughts of a sequence (`max_thoughts`), and 2 MiB of a caller (`max_bytes`); the "
        "reference has no bounds.",
        "The reference prints each thought in a frame on standard error; ours prints none and offers the transcript as "
        "a resource.",
    ),
    [],
)


@THOUGHTS('Numbers and booleans as strings: `"3"`, `"true"`')
async def strings(trial: Trial) -> str:
    async with trial.talk(command(trial), revision=_SESSIONS) as talk:
        answer = await talk.call(
            "sequentialthinking", thought="Begin", thoughtNumber="1", totalThoughts="3", nextThoughtNeeded="true"
        )
    return "understood" if not answer.is_error and answer.data["totalThoughts"] == 3 else str(answer)


@THOUGHTS("Thought 2 without `sequence_id` in 2026-07-28, which has no sessions")
async def modern(trial: Trial) -> str:
    try:
        async with trial.talk(command(trial), revision="2026-07-28") as talk:
            await _think(talk, 1)
            answer = await _think(talk, 2)
    except RemoteProtocolError:
        return "does not support that revision"
    return "continues the sequence" if not answer.is_error else str(answer)


@THOUGHTS("Optional arguments that are `null`")
async def nulls(trial: Trial) -> str:
    async with trial.talk(command(trial), revision=_SESSIONS) as talk:
        answer = await _think(talk, 1, branchId=None, isRevision=None)
    return "understood" if not answer.is_error else str(answer)


@THOUGHTS("The length of the history after three thoughts and a new sequence that starts with thought 1")
async def anew(trial: Trial) -> str:
    async with trial.talk(command(trial), revision=_SESSIONS) as talk:
        for number in (1, 2, 3):
            await _think(talk, number)
        answer = await _think(talk, 1)
    count = answer.data["thoughtHistoryLength"]
    return f"{count} thought{'s' * (count != 1)}"


@THOUGHTS("A branch of the first sequence, in the second")
async def branches(trial: Trial) -> str:
    async with trial.talk(command(trial), revision=_SESSIONS) as talk:
        await _think(talk, 1)
        await _think(talk, 2, branchFromThought=1, branchId="mine")
        answer = await _think(talk, 1)
    return "is listed" if answer.data["branches"] else "is not listed"


@THOUGHTS("A revision of thought 7, which does not exist")
async def revision(trial: Trial) -> str:
    async with trial.talk(command(trial), revision=_SESSIONS) as talk:
        await _think(talk, 1)
        answer = await _think(talk, 2, isRevision=True, revisesThought=7)
    if answer.is_error:
        return str(answer)
    return (
        "is accepted, with a note that it does not exist" if answer.data.get("notes") else "is accepted without a note"
    )


@THOUGHTS("1,000 thoughts of 10 kB in one sequence")
async def many(trial: Trial) -> str:
    taken = 0
    kept = ""
    async with trial.talk(command(trial), revision=_SESSIONS) as talk:
        for number in range(1, 1_001):
            taken += not (await _think(talk, number, thought="x" * 10_000)).is_error
        if trial.is_ours:
            kept = f", the last {(await talk.call('get_sequence')).data['total']} can be read"
    return counted(taken, 1_000, "accepted") + kept


@THOUGHTS("Reading earlier thoughts")
async def again(trial: Trial) -> str:
    async with trial.talk(command(trial), revision=_SESSIONS) as talk:
        answer = await _think(talk, 1, thought="a thought to be read again")
        more = {"sequence_id": answer.data.get("sequence_id")}
        found = await talk.call("get_sequence", **{name: value for name, value in more.items() if value})
    return "possible" if "a thought to be read again" in str(found.data or found.text) else "not possible"


@THOUGHTS("Hints of the tool, which stores its input")
async def hints(trial: Trial) -> str:
    async with trial.talk(command(trial), revision=_SESSIONS) as talk:
        tools = await talk.client.tools().all()
        (tool,) = [tool for tool in tools if tool.name.endswith("sequentialthinking")]
        annotations = tool.annotations
    assert annotations is not None
    return f"read-only: {_word(annotations.read_only_hint)}, idempotent: {_word(annotations.idempotent_hint)}"


@THOUGHTS("The output on standard error for one thought")
async def noise(trial: Trial) -> str:
    lines: list[str] = []
    async with trial.talk(command(trial), revision=_SESSIONS, stderr=lines.append) as talk:
        await _think(talk, 1, thought="a private thought")
    return f"{'with' if any('private' in line for line in lines) else 'without'} the thought"


def _word(hint: object) -> str:
    return {True: "yes", False: "no"}.get(hint, "unsaid") if isinstance(hint, bool) else "unsaid"


async def _think(talk: Talk, number: int, **more: Any) -> Answer:
    usual = {"thought": "Hm.", "thoughtNumber": number, "totalThoughts": 5, "nextThoughtNeeded": True}
    return await talk.call("sequentialthinking", **{**usual, **more})
