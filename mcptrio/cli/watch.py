"""``mcptrio watch``: shows the changes that a server reports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import click

from mcptrio.cli.client.client_command import ClientCommand
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.exit_codes import line_of
from mcptrio.cli.client.schema_words import properties
from mcptrio.cli.list import fetch
from mcptrio.cli.param_types import IntegerRange
from mcptrio.cli.terminal.layout import Style
from mcptrio.client.subscriptions import Change, Changes
from mcptrio.errors import ConfigError, MCPError, MethodNotFound
from mcptrio.ground.quoting import printable, quote
from mcptrio.ground.suggestions import suggest

__all__ = ["LISTS", "command", "show_change", "split_words", "subscribe", "watchable_lists"]


LISTS = ("tools", "prompts", "resources")
_WORDS = {"outputSchema": "result", "_meta": "metadata", "mimeType": "type"}
"""The names for people of some members of entries."""
_EntriesByKey: TypeAlias = dict[str, dict[str, Any]]


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate URIs of resources, which contain a colon, from names of lists."""
    uris = [word for word in words if word not in LISTS]
    for word in uris:
        if ":" not in word:
            raise ConfigError(f"expected a URI, tools, prompts or resources, got {quote(word)}{suggest(word, LISTS)}")
    return uris, [word for word in words if word in LISTS]


@asynccontextmanager
async def subscribe(cmd: CommandContext, uris: Sequence[str], lists: Sequence[str]) -> AsyncIterator[Changes]:
    """Subscribe during the block.

    Raises:
        ConfigError: The server reports none of these changes.
    """
    async with AsyncExitStack() as stack:
        try:
            changes = await stack.enter_async_context(
                cmd.client.subscribe(uris, **{name: name in lists for name in LISTS})
            )
        except MethodNotFound as error:
            names = ", ".join((*(f"the list of {name}" for name in lists), *uris))
            raise ConfigError(f"the server has no subscriptions to {names}") from error
        yield changes


@click.command("watch", cls=ClientCommand)
@click.argument("words", nargs=-1, metavar="[tools|prompts|resources|URI]...")
@click.option(
    "--count",
    type=IntegerRange("a number of at least 1", 1),
    metavar="NUMBER",
    help="End after this number of changes.",
)
async def command(cmd: CommandContext, words: tuple[str, ...], count: int | None) -> None:
    """Print a line when a list or a named resource changes.

    Without an argument, watches every list whose changes the server reports. Ctrl-C ends the command.
    """
    uris, watched = split_words(words) if words else ([], watchable_lists(cmd))
    if not uris and not watched:
        raise ConfigError("the server has no subscriptions to its lists; pass the URI of a resource to watch")
    async with subscribe(cmd, uris, watched) as changes:
        # Read after the subscription has begun, so that no change is missed in between.
        lists = {} if cmd.as_json else {name: await _read_list(cmd, name) for name in watched}
        if changes.missing:
            cmd.console.note(f"the server has no subscriptions to: {', '.join(changes.missing)}", "yellow")
        cmd.console.note("watching", "dim")
        number = 0
        async for change in changes:
            if change.kind in lists:
                await _show_difference(cmd, change.kind, lists)
            else:
                show_change(cmd, change)
            number += 1
            if number == count:
                return


def watchable_lists(cmd: CommandContext) -> list[str]:
    """Return the lists whose changes the server reports, according to its capabilities."""
    capabilities = cmd.client.capabilities
    kinds = {"tools": capabilities.tools, "prompts": capabilities.prompts, "resources": capabilities.resources}
    return [kind for kind, capability in kinds.items() if capability is not None and capability.list_changed]


def show_change(cmd: CommandContext, change: Change) -> None:
    if cmd.as_json:
        cmd.console.print_json({"kind": change.kind, **({"uri": change.uri} if change.uri is not None else {})})
    else:
        cmd.console.print(printable(f"{change.kind} {change.uri}" if change.uri is not None else change.kind))


async def _read_list(cmd: CommandContext, name: str) -> _EntriesByKey:
    """Return a list as JSON objects by name, or by URI or template."""
    # The server reports a change to templates as a change to resources.
    kinds = ("resources", "templates") if name == "resources" else (name,)
    items = [cmd.wire(item) for kind in kinds for item in await fetch(cmd, kind)]
    return {item.get("uri") or item.get("uriTemplate") or item["name"]: item for item in items}


async def _show_difference(cmd: CommandContext, name: str, lists: dict[str, _EntriesByKey]) -> None:
    """Read a list again, and show what was added, removed and changed since the last time, one line each."""
    try:
        now = await _read_list(cmd, name)
    except MCPError as error:
        cmd.console.print(f"{name}: the list cannot be read: {line_of(error)}")
        return
    before, lists[name] = lists[name], now
    lines: list[tuple[str, Style, str]] = []
    lines.extend((f"{name}: added ", "green", each) for each in now if each not in before)
    lines.extend((f"{name}: removed ", "red", each) for each in before if each not in now)
    for each, item in now.items():
        if each in before and (difference := _describe_change(before[each], item)):
            lines.append((f"{name}: changed ", "yellow", f"{each} ({difference})"))
    layout = cmd.console.layout
    for label, style, text in lines:
        cmd.console.print_painted(layout.wrap(printable(text), style, label=label))
    if not lines:
        cmd.console.print(f"{name}: no difference")


def _describe_change(before: dict[str, Any], now: dict[str, Any]) -> str:
    keys = (key for key in {**before, **now} if before.get(key) != now.get(key))
    return ", ".join(_describe_arguments(before, now) if key == "inputSchema" else _WORDS.get(key, key) for key in keys)


def _describe_arguments(before: dict[str, Any], now: dict[str, Any]) -> str:
    old, new = ({**properties(each["inputSchema"], each["inputSchema"])} for each in (before, now))
    changes = [f"+{name}" for name in new if name not in old] + [f"-{name}" for name in old if name not in new]
    changes += [name for name in new if name in old and old[name] != new[name]]
    return f"arguments {' '.join(changes)}" if changes else "arguments"
