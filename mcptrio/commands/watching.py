"""``mcptrio watch``: what changes, as the server tells it."""

from __future__ import annotations

import click

from mcptrio.client.printable import printable
from mcptrio.client.subscriptions import Change, Changes
from mcptrio.commands.client_command import ClientCommand
from mcptrio.commands.visit import Visit
from mcptrio.errors import ConfigError

__all__ = ["command", "show_change", "told_of"]


@click.command("watch", cls=ClientCommand)
@click.argument("uris", nargs=-1, metavar="[URI]...")
@click.option("--tools", is_flag=True, help="Watch the list of tools.")
@click.option("--prompts", is_flag=True, help="Watch the list of prompts.")
@click.option("--resources", is_flag=True, help="Watch the list of resources.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many changes.")
async def command(
    visit: Visit, uris: tuple[str, ...], tools: bool, prompts: bool, resources: bool, count: int | None
) -> None:
    """Show what changes: lists, and the contents of the resources named.

    Without any of them, every list that the server tells of. Ends with Ctrl-C.
    """
    if not (uris or tools or prompts or resources):
        told = told_of(visit)
        if not told:
            raise ConfigError("the server tells of no changes to its lists; name a resource to watch")
        tools, prompts, resources = "tools" in told, "prompts" in told, "resources" in told
    async with visit.client.subscribe(uris, tools=tools, prompts=prompts, resources=resources) as changes:
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
