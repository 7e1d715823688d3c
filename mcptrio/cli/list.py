"""``mcptrio list``: lists the entries of a server with their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from mcptrio.cli.client.client_command import ClientCommand
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.schema_words import signature
from mcptrio.cli.param_types import OneOf
from mcptrio.client.listings import Listing
from mcptrio.errors import MethodNotFound
from mcptrio.ground.quoting import printable
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.protocol.model.tools import Tool

__all__ = ["KINDS", "command", "fetch", "is_declared"]

KINDS = ("tools", "resources", "templates", "prompts")
_JSON_KEYS = {"tools": "tools", "resources": "resources", "templates": "resourceTemplates", "prompts": "prompts"}
_INDENT = "    "


@click.command("list", cls=ClientCommand)
@click.argument("kind", required=False, type=OneOf(KINDS), metavar="[tools|resources|templates|prompts]")
async def command(cmd: CommandContext, kind: str | None) -> None:
    """List a server's tools, resources, templates and prompts, or one kind of them.

    \b
    mcptrio list --plugin hello.py
    mcptrio list http://127.0.0.1:8000/mcp tools

    In a pipe, prints one line per entry: its name, a tab and its description.
    """
    items_by_kind = {each: await fetch(cmd, each) for each in ((kind,) if kind else KINDS)}
    if cmd.as_json:
        cmd.console.print_json(
            {_JSON_KEYS[each]: [cmd.wire(item) for item in items] for each, items in items_by_kind.items()}
        )
        return
    for each, items in items_by_kind.items():
        if cmd.console.is_out_terminal:
            _show(cmd, each, items, has_heading=kind is None)
        else:
            # Names and descriptions may contain spaces, but printable escapes tabs.
            for item in items:
                words = [_id(item), _summary(item)] if kind else [each, _id(item), _summary(item)]
                cmd.console.print("\t".join(words))


async def fetch(cmd: CommandContext, kind: str) -> Sequence[Any]:
    """Return all entries of a kind; none if the server does not declare the kind."""
    if not is_declared(cmd, kind):
        return ()
    client = cmd.client
    listings: dict[str, Listing[Any]] = {
        "tools": client.tools(),
        "resources": client.resources(),
        "templates": client.resource_templates(),
        "prompts": client.prompts(),
    }
    try:
        return await listings[kind].all()
    except MethodNotFound:
        if kind == "tools":
            raise
        return ()  # a server with resources may have no method for templates


def is_declared(cmd: CommandContext, kind: str) -> bool:
    """Return whether the server declares a kind of entries."""
    capabilities = cmd.client.capabilities
    return getattr(capabilities, "resources" if kind == "templates" else kind) is not None


def _show(cmd: CommandContext, kind: str, items: Sequence[Any], *, has_heading: bool) -> None:
    console = cmd.console
    if has_heading:
        console.print_painted(console.layout.paint(kind if items else f"no {kind}", "bold"))
    for item in items:
        lines = console.layout.wrap(_signature(item), indent="  " if has_heading else "").split("\n")
        console.print_painted("\n".join(console.layout.paint(line, "cyan") for line in lines))
        if summary := _summary(item):
            console.print_painted(console.layout.wrap(summary, indent=_INDENT))
    if not items and not has_heading:
        console.note(f"the server has no {kind}", "dim")


def _id(item: Any) -> str:
    if isinstance(item, Resource):
        return printable(item.uri)
    if isinstance(item, ResourceTemplate):
        return printable(item.uri_template)
    return printable(item.name)


def _signature(item: Any) -> str:
    if isinstance(item, Tool):
        return signature(item.name, item.input_schema)
    if isinstance(item, Prompt):
        return " ".join(_prompt_words(item))
    return _id(item)


def _prompt_words(prompt: Prompt) -> Iterator[str]:
    yield printable(prompt.name)
    for argument in prompt.arguments:
        word = f"{printable(argument.name)}=…"
        yield word if argument.required else f"[{word}]"


def _summary(item: Any) -> str:
    """Return the first paragraph of the description, the title, or the name of a resource; on one line."""
    text = item.description or item.title or (item.name if isinstance(item, Resource | ResourceTemplate) else "")
    # The lines of a docstring end in the middle of a sentence.
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    return printable(" ".join(first.split()))
