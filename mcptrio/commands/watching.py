"""``mcptrio watch``: what changes, as the server tells it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import click
from attrs import frozen

from mcptrio.capabilities.problems import suggest
from mcptrio.client.printable import printable, quote
from mcptrio.client.subscriptions import Change, Changes
from mcptrio.commands.client_command import ClientCommand
from mcptrio.commands.visit import Visit
from mcptrio.errors import ConfigError

__all__ = ["LISTS", "Watched", "command", "show_change", "told_of"]


LISTS = ("tools", "prompts", "resources")


@frozen
class Watched:
    """What is watched.

    Args:
        uris: resources whose contents are.
        lists: some of tools, prompts and resources.
    """

    uris: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()

    @classmethod
    def read(cls, words: Sequence[str]) -> Watched:
        """Tell names of lists from URIs, which have a colon.

        Raises:
            ConfigError: a word is neither.
        """
        lists = tuple(word for word in words if word in LISTS)
        uris = tuple(word for word in words if word not in LISTS)
        for word in uris:
            if ":" not in word:
                raise ConfigError(
                    f"expected a URI, tools, prompts or resources, got {quote(word)}{suggest(word, LISTS)}"
                )
        return cls(uris, lists)

    def subscribe(self, visit: Visit) -> AbstractAsyncContextManager[Changes]:
        """Ask the server for these changes."""
        wanted = {name: name in self.lists for name in LISTS}
        return visit.client.subscribe(self.uris, **wanted)


@click.command("watch", cls=ClientCommand)
@click.argument("words", nargs=-1, metavar="[tools|prompts|resources|URI]...")
@click.option("--count", type=click.IntRange(min=1), metavar="NUMBER", help="End after so many changes.")
async def command(visit: Visit, words: tuple[str, ...], count: int | None) -> None:
    """Show what changes: lists, and the contents of the resources named.

    Without any of them, every list that the server tells of. Ends with Ctrl-C.
    """
    watched = Watched.read(words) if words else Watched(lists=tuple(told_of(visit)))
    if watched == Watched():
        raise ConfigError("the server tells of no changes to its lists; name a resource to watch")
    async with watched.subscribe(visit) as changes:
        _show_begin(visit, changes)
        seen = 0
        async for change in changes:
            show_change(visit, change)
            seen += 1
            if seen == count:
                return


def told_of(visit: Visit) -> list[str]:
    """The lists whose changes the server says it tells of."""
    capabilities = visit.client.capabilities
    kinds = {"tools": capabilities.tools, "prompts": capabilities.prompts, "resources": capabilities.resources}
    return [kind for kind, capability in kinds.items() if capability is not None and capability.list_changed]


def show_change(visit: Visit, change: Change) -> None:
    """One line, or one JSON object."""
    if visit.as_json:
        visit.console.print_json({"kind": change.kind, **({"uri": change.uri} if change.uri is not None else {})})
    else:
        visit.console.print(printable(f"{change.kind} {change.uri}" if change.uri is not None else change.kind))


def _show_begin(visit: Visit, changes: Changes) -> None:
    """Say which changes the server does not report."""
    refused = changes.missing
    if refused:
        visit.console.note(f"the server does not tell of: {', '.join(refused)}", "yellow")
    visit.console.note("watching", "dim")
