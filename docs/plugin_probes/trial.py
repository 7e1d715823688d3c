"""One server for a probe, ours or the reference, and its calls.

All probes and the script use it. A probe is the same code for both sides. It knows the side only to write a
configuration, never to decide about its result.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from attrs import define, frozen

from mcptrio import Client, Command, MCPTrioError, RequestTimeout, connect
from mcptrio.client import ClientTimeouts, Handlers
from mcptrio.types import BlobResourceContents, CallToolResult, EmbeddedResource, TextContent

__all__ = ["Answer", "Attempt", "Probe", "Probes", "References", "Talk", "Trial", "counted", "shortened"]

WAIT_TIMEOUT = 20.0
"""Seconds for an answer."""
_SHOWN = 110
"""Characters of an answer in a cell."""


@frozen
class References:
    """Where the reference servers are."""

    node: Path
    packages: Path
    """The folder of the ``node_modules``."""
    python: Path
    markitdown: Path
    """The Python of markitdown-mcp, which has an environment of its own."""

    def of_node(self, package: str, *arguments: str) -> tuple[str, ...]:
        script = self.packages / "node_modules" / "@modelcontextprotocol" / package / "dist" / "index.js"
        return (str(self.node), str(script), *arguments)

    def of_python(self, module: str, *arguments: str) -> tuple[str, ...]:
        return (str(self.python), "-m", module, *arguments)


@frozen
class Answer:
    """The result of a call."""

    text: str
    is_error: bool = False
    is_missing: bool = False
    """There was none in time."""
    structured: Any = None
    kinds: tuple[str, ...] = ()
    """Of its content blocks."""

    def __str__(self) -> str:
        if self.is_missing:
            return self.text
        return ("refused: " if self.is_error else "answered: ") + shortened(self.text)

    @property
    def data(self) -> Any:
        """The structured content, or the text read as JSON."""
        if self.structured is not None:
            return self.structured
        try:
            return json.loads(self.text)
        except ValueError:
            return None


@define(eq=False)
class Talk:
    """A connection to one of the two."""

    client: Client
    prefix: str
    """What mcptrio puts before the names of a plugin's tools."""
    names: frozenset[str]

    async def call(self, tool: str, /, *, timeout: float = WAIT_TIMEOUT, **arguments: Any) -> Answer:
        """
        Args:
            tool: as the reference calls it.
        """
        name = tool if tool in self.names else self.prefix + tool
        try:
            result = await self.client.call_tool(name, arguments, timeout=timeout)
        except RequestTimeout:
            return Answer(f"no answer within {timeout:g} s", is_error=True, is_missing=True)
        except MCPTrioError as error:
            return Answer(str(error), is_error=True)
        return _answer(result)


@define(eq=False)
class Trial:
    """One side while its probes run.

    Args:
        plugin: the name of ours.
        references: where the other one is; None for ours.
        folder: empty at first; the probes' own.
    """

    plugin: str
    references: References | None
    folder: Path
    _number: int = 0

    @property
    def is_ours(self) -> bool:
        return self.references is None

    def make_folder(self, name: str) -> Path:
        """An empty folder of this name in one that no other probe has."""
        self._number += 1
        made = self.folder / str(self._number) / name
        made.mkdir(parents=True)
        return made

    def ours(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The command that serves our plugin with these settings."""
        config = self.make_folder("config") / "mcptrio.toml"
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        config.write_text(f"[plugins.{self.plugin}]\n{lines}", "utf-8")
        serve = (
            "-m",
            "mcptrio",
            "serve",
            "--stdio",
            "--log-level=error",
            "--strict",
            "--plugin",
            self.plugin,
            f"--config={config}",
        )
        return (sys.executable, *serve)

    @asynccontextmanager
    async def talk(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        handlers: Handlers | None = None,
        stderr: Callable[[str], object] | None = None,
        revision: str | None = None,
    ) -> AsyncIterator[Talk]:
        """
        Args:
            stderr: gets the lines of its standard error.
            revision: speak this one; by default the newest that both speak.
        """
        target = Command(args=command, env=env or {}, cwd=self.folder, stderr=stderr or "drop")
        timeouts = ClientTimeouts(connect=WAIT_TIMEOUT, idle=WAIT_TIMEOUT)
        async with connect(target, timeouts=timeouts, handlers=handlers, revision=revision) as client:
            names = frozenset(tool.name for tool in await client.tools().all())
            yield Talk(client, f"{self.plugin}_", names)


Attempt: TypeAlias = Callable[[Trial], Awaitable[str]]


@frozen
class Probe:
    """A row."""

    title: str
    """In Markdown."""
    attempt: Attempt
    """The observation, in Markdown."""
    is_measured: bool
    """Whether it holds figures that differ from run to run."""


@define(eq=False)
class Probes:
    """The rows about one plugin.

    Args:
        plugin: the name of ours.
        reference: the name of the other.
        command: the usual command of either.
        env: its environment variables.
        more: features that only the reference has, and features that were not compared, as sentences.
    """

    plugin: str
    reference: str
    command: Callable[[Trial], tuple[str, ...]]
    env: Mapping[str, str]
    more: Sequence[str]
    rows: list[Probe]

    def __call__(self, title: str, *, is_measured: bool = False) -> Callable[[Attempt], Attempt]:
        """Add a row."""

        def add(attempt: Attempt) -> Attempt:
            self.rows.append(Probe(title, attempt, is_measured))
            return attempt

        return add


def shortened(text: str, length: int = _SHOWN) -> str:
    """For a cell: one line, no table syntax, nothing of this machine."""
    text = re.sub(r"(?<![\w:/.\"])/(?:[\w.@+-]+/)+", "…/", " ".join(text.split()))
    text = re.sub(r"(\d|localhost|example):\d{4,5}\b", r"\1:PORT", text)
    text = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
    return text if len(text) <= length else text[:length].rstrip() + "…"


def counted(count: int, of: int, what: str) -> str:
    return f"{'all' if count == of else count} of {of} {what}" if of else f"no {what}"


def _answer(result: CallToolResult) -> Answer:
    texts: list[str] = []
    for block in result.content:
        if isinstance(block, TextContent):
            texts.append(block.text)
        elif isinstance(block, EmbeddedResource) and not isinstance(block.resource, BlobResourceContents):
            texts.append(block.resource.text)
    kinds = tuple(type(block).__name__ for block in result.content)
    is_error = result.is_error or False
    return Answer("\n".join(texts), is_error, structured=result.structured_content, kinds=kinds)
