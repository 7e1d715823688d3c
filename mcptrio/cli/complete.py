"""``mcptrio complete``: shows the completions of an argument."""

from __future__ import annotations

from typing import Literal

import click

from mcptrio.cli.client.client_command import ClientCommand
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.param_types import OneOf
from mcptrio.cli.prompt import read_texts
from mcptrio.ground.quoting import printable

__all__ = ["command"]


@click.command("complete", cls=ClientCommand)
@click.argument("of", type=OneOf(["prompt", "resource"]), metavar="prompt|resource")
@click.argument("name")
@click.argument("argument")
@click.argument("value", default="")
@click.option("--context", multiple=True, metavar="KEY=VALUE", help="An argument that is already chosen.")
async def command(
    cmd: CommandContext,
    of: Literal["prompt", "resource"],
    name: str,
    argument: str,
    value: str,
    context: tuple[str, ...],
) -> None:
    """Show completions for an argument of a prompt or a resource template.

    \b
    mcptrio complete --plugin garden.py prompt plan season sp

    NAME is the prompt or the URI template; VALUE is the text typed so far.
    """
    cmd.require("completions")
    completion = await cmd.client.complete(of, name, argument, value, context=read_texts(context))
    if cmd.as_json:
        cmd.console.print_json(cmd.wire(completion))
        return
    for each in completion.values:
        # A server chooses these texts, and they go to a terminal.
        cmd.console.print(printable(each))
    if not completion.values:
        cmd.console.note("no completions", "dim")
    if completion.has_more or (completion.total or 0) > len(completion.values):
        total = f"of {completion.total}" if completion.total else "shown; the server has more"
        cmd.console.note(f"{len(completion.values)} {total}", "dim")
