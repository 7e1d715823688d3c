"""A client that makes written calls in the place of a model, and counts tokens; all transcripts use it.

For each task a script has the calls that a model would make of a server, in order. The client stops as soon as the
answers have all facts of the task. It discards an answer over the budget, as host applications do, which counts as a
refused call. Tokens are bytes divided by four: the definitions of the tools, the calls, and the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
from attrs import define, frozen

from mcptrio import Client, Command, MCPTrioError, connect
from mcptrio.types import TextContent

__all__ = ["BUDGET", "FOLDER", "Call", "Tally", "Task", "Transcript", "table", "talk"]

BUDGET: Final = 10_000
"""Tokens of one answer."""
FOLDER: Final = "<folder>"
"""In arguments: the folder of the transcript."""
_BYTES_PER_TOKEN: Final = 4
_DISCARDED_TOKENS: Final = 30
"""Of the sentence that a model reads in the place of an answer over the budget."""

Call: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a tool, and the arguments."""
Script: TypeAlias = tuple[Sequence[Call], Sequence[str]]
"""The calls for a task, and the facts that their answers must contain."""


@frozen
class Task:
    """A task, with the calls for both sides."""

    title: str
    facts: Sequence[str]
    ours: Sequence[Call]
    theirs: Sequence[Call]
    their_facts: Sequence[str] = ()
    """The facts for the reference, if its answers have them in other words."""

    @property
    def our_script(self) -> Script:
        return self.ours, self.facts

    @property
    def their_script(self) -> Script:
        return self.theirs, self.their_facts or self.facts


@define
class Tally:
    """The calls and tokens of a task on one side."""

    calls: int = 0
    refused: int = 0
    tokens: int = 0
    is_answered: bool = False

    def __str__(self) -> str:
        refused = f", {self.refused} refused" if self.refused else ""
        return f"{self.tokens:,} in {self.calls}{refused}{'' if self.is_answered else ', not answered'}"


@frozen
class Transcript:
    """The calls and tokens of one side."""

    definitions: int
    """Tokens of the definitions of all tools."""
    tallies: Sequence[Tally]
    """One for each task."""

    @property
    def total(self) -> Tally:
        """Return the sum of the tasks and of the definitions."""
        return Tally(
            calls=sum(each.calls for each in self.tallies),
            refused=sum(each.refused for each in self.tallies),
            tokens=self.definitions + sum(each.tokens for each in self.tallies),
            is_answered=all(each.is_answered for each in self.tallies),
        )


async def talk(
    commands: Sequence[Sequence[str]], scripts: Sequence[Script], *, folder: Path | None = None, budget: int = BUDGET
) -> Transcript:
    """Start the servers, and perform the scripts one after the other."""
    async with AsyncExitStack() as stack:
        owners: dict[str, Client] = {}
        size = 0
        for command in commands:
            client = await stack.enter_async_context(connect(Command(args=command, stderr="drop")))
            async for tool in client.tools():
                owners[tool.name] = client
                size += len(f"{tool.name}{tool.description or ''}".encode()) + len(orjson.dumps(tool.input_schema))
        tallies = [await _perform(owners, script, folder, budget) for script in scripts]
    return Transcript(size // _BYTES_PER_TOKEN, tallies)


async def _perform(owners: Mapping[str, Client], script: Script, folder: Path | None, budget: int) -> Tally:
    calls, facts = script
    missing = set(facts)
    tally = Tally()
    for tool, template in calls:
        written = orjson.dumps(template).replace(FOLDER.encode(), str(folder).encode())
        tally.calls += 1
        tally.tokens += _tokens(written)
        try:
            result = await owners[tool].call_tool(tool, orjson.loads(written))
        except MCPTrioError as error:
            tally.refused += 1
            tally.tokens += _tokens(str(error).encode())
            continue
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        size = _tokens(text.encode())
        is_discarded = size > budget
        tally.tokens += _DISCARDED_TOKENS if is_discarded else size
        if result.is_error or is_discarded:
            tally.refused += 1
            continue
        missing = {fact for fact in missing if fact not in text}
        if not missing:
            tally.is_answered = True
            break
    return tally


def _tokens(text: bytes) -> int:
    return -(-len(text) // _BYTES_PER_TOKEN)


def table(tasks: Sequence[Task], columns: Mapping[str, Transcript]) -> list[str]:
    """Return the lines of a table with one row a task and one column a transcript."""
    sides = columns.values()
    return [
        f"| tokens in calls | {' | '.join(columns)} |",
        "|" + " --- |" * (1 + len(columns)),
        f"| definitions of the tools | {' | '.join(f'{each.definitions:,}' for each in sides)} |",
        *(
            f"| {task.title} | {' | '.join(str(each.tallies[index]) for each in sides)} |"
            for index, task in enumerate(tasks)
        ),
        f"| **all** | {' | '.join(f'**{each.total}**' for each in sides)} |",
    ]
