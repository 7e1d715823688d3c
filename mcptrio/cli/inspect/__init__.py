"""``mcptrio inspect``: who a server is, what it offers, what that costs, and what is odd about it.

The one rule: it only asks for lists; no tool is called.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import click
from attrs import Factory, asdict, define

from mcptrio.cli.client.client_command import ClientCommand
from mcptrio.cli.client.exit_codes import ExitCode
from mcptrio.cli.client.schema_words import describe, properties, required
from mcptrio.cli.client.command_context import Visit
from mcptrio.cli.inspect.lint import (
    SEVERITIES,
    Oddity,
    odd_prompts,
    odd_resources,
    odd_templates,
    odd_text,
    odd_tools,
)
from mcptrio.cli.terminal.console import readable
from mcptrio.cli.terminal.layout import Style, counted
from mcptrio.errors import MCPError, MethodNotFound, RemoteProtocolError
from mcptrio.ground.quoting import printable
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.protocol.model.tools import Tool
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS

__all__ = ["command", "tokens"]

_PAGES = 200
_PER_TOKEN = 4
"""Characters of JSON; what the tokenizers of today make of English and JSON, give or take a third."""
_MANY_TOKENS = 20_000
"""Of all tools together, above which some hosts load tools only on demand."""
_STYLES: dict[str, Style] = {"error": "red", "warning": "yellow", "note": "dim"}
_METHODS = {
    "tools": ("tools/list", "tools"),
    "resources": ("resources/list", "resources"),
    "templates": ("resources/templates/list", "resource_templates"),
    "prompts": ("prompts/list", "prompts"),
}


@define
class _Lists:
    """What a server lists, as far as it can be read, and what was odd about listing it."""

    tools: list[Tool] = Factory(list)
    resources: list[Resource] = Factory(list)
    templates: list[ResourceTemplate] = Factory(list)
    prompts: list[Prompt] = Factory(list)
    oddities: list[Oddity] = Factory(list)


@click.command("inspect", cls=ClientCommand)
@click.option("--strict", is_flag=True, help="End with exit code 1 where a warning or an error is found.")
async def command(visit: Visit, strict: bool) -> int:
    """Tell who a server is, what it offers, and what is odd about it.

    Costs are estimates: a token is taken for four characters of JSON. Texts that look like a trap for a model are
    pointed out; that none is found does not make a server trustworthy.
    """
    lists = await _list_all(visit)
    oddities = [*lists.oddities, *_look(visit, lists)]
    oddities.sort(key=lambda oddity: SEVERITIES.index(oddity.severity))
    if visit.as_json:
        visit.console.print_json(_as_json(visit, lists, oddities))
    else:
        _show(visit, lists, oddities)
    fails = strict and any(oddity.severity != "note" for oddity in oddities)
    return ExitCode.FAILED if fails else ExitCode.DONE


def tokens(tool: Tool) -> int:
    """About how many tokens a tool takes in a model's context."""
    said = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
    return -(-len(json.dumps(said, ensure_ascii=False, default=str)) // _PER_TOKEN)


async def _list_all(visit: Visit) -> _Lists:
    """Ask for every list by hand: with what the client would leave out, and where nothing is declared."""
    lists = _Lists()
    capabilities = visit.client.capabilities
    for kind, (method, member) in _METHODS.items():
        feature = "resources" if kind == "templates" else kind
        is_declared = getattr(capabilities, feature) is not None
        items = getattr(lists, kind)
        pages = 0
        try:
            async for page in _pages(visit, method):
                items.extend(getattr(page, member))
                pages += 1
        except MCPError as error:
            if is_declared and (kind != "templates" or not isinstance(error, MethodNotFound)):
                lists.oddities.append(_odd("error", method, f"is refused, although {feature} is declared: {error}"))
        except RemoteProtocolError as error:
            lists.oddities.append(_odd("error", method, f"cannot be read: {error}"))
        if items and not is_declared:
            lists.oddities.append(_odd("warning", method, f"is answered, although {feature} is not declared"))
        elif is_declared and pages and not items and kind in ("tools", "prompts"):
            lists.oddities.append(_odd("note", method, f"is empty, although {feature} is declared"))
    return lists


async def _pages(visit: Visit, method: str) -> AsyncIterator[Any]:
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await visit.client.request(method, {} if cursor is None else {"cursor": cursor})
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return
    raise RemoteProtocolError(f"has more than {_PAGES} pages")


def _look(visit: Visit, lists: _Lists) -> Iterator[Oddity]:
    client = visit.client
    revision = REVISIONS[client.revision]
    if revision is not LATEST:
        yield _odd("note", "server", f"speaks {revision.version}; the newest is {LATEST.version}")
    info = client.server_info
    if info is None or not info.name or not info.version:
        yield _odd("note", "server", "does not say its name and version")
    else:
        yield from odd_text("server", info.name, info.title, info.description)
    yield from odd_text("instructions", client.instructions)
    yield from odd_tools(lists.tools, mirrors=revision.http.mirrored_headers)
    yield from odd_resources(lists.resources)
    yield from odd_templates(lists.templates)
    yield from odd_prompts(lists.prompts)
    cost = sum(map(tokens, lists.tools))
    if cost > _MANY_TOKENS:
        yield _odd("warning", "tools", f"take about {cost:,} tokens of each conversation")


def _odd(severity: Any, where: str, what: str) -> Oddity:
    return Oddity(severity=severity, where=where, what=what)


def _as_json(visit: Visit, lists: _Lists, oddities: Sequence[Oddity]) -> dict[str, Any]:
    client = visit.client
    return {
        "server": visit.wire(client.server_info) if client.server_info is not None else None,
        "revision": client.revision,
        "capabilities": visit.wire(client.capabilities),
        "instructions": client.instructions,
        "tools": [{**visit.wire(tool), "tokens": tokens(tool)} for tool in lists.tools],
        "resources": [visit.wire(each) for each in lists.resources],
        "resourceTemplates": [visit.wire(each) for each in lists.templates],
        "prompts": [visit.wire(each) for each in lists.prompts],
        "tokens": sum(map(tokens, lists.tools)),
        "oddities": [asdict(oddity) for oddity in oddities],
    }


def _show(visit: Visit, lists: _Lists, oddities: Sequence[Oddity]) -> None:
    console, client = visit.console, visit.client
    look, info = console.look, client.server_info
    name = f"{info.title or info.name} {info.version}" if info is not None else "does not say"
    rows = [("server", name), ("revision", client.revision), ("declares", ", ".join(_declared(visit)) or "nothing")]
    rows.extend((kind, str(len(getattr(lists, kind)))) for kind in _METHODS)
    if lists.tools:
        rows.append(("cost", f"about {counted(sum(map(tokens, lists.tools)), 'tokens')} for the tools"))
    for label, text in rows:
        console.print_painted(look.wrap(printable(text), "bold", label=f"{label:<12}"))
    if client.instructions:
        console.print_painted(console.paint_out("instructions", "bold"))
        console.print_painted(look.wrap(readable(client.instructions.rstrip("\n")), indent="    "))
    for tool in lists.tools:
        _show_tool(visit, tool)
    console.print()
    if not oddities:
        console.print_painted(look.paint("nothing odd", "green"))
    for oddity in oddities:
        said = f"{printable(oddity.where)}: {printable(oddity.what)}"
        console.print_painted(look.wrap(said, _STYLES[oddity.severity], label=f"{oddity.severity:<8} "))


def _show_tool(visit: Visit, tool: Tool) -> None:
    console = visit.console
    hints = tool.annotations
    told = [f"about {counted(tokens(tool), 'tokens')}"]
    if hints is not None:
        told.extend(
            text
            for text, is_told in (
                ("says it only reads", hints.read_only_hint),
                ("says it destroys", hints.destructive_hint),
                ("says it may be repeated", hints.idempotent_hint),
                ("says it reaches outside", hints.open_world_hint),
            )
            if is_told
        )
    console.print()
    console.print_painted(console.look.wrap(f"({'; '.join(told)})", "cyan", label=f"{printable(tool.name)}  "))
    if description := (tool.description or "").strip():
        console.print_painted(console.look.wrap(readable(description), indent="    "))
    needed = required(tool.input_schema, tool.input_schema)
    for key, member in properties(tool.input_schema, tool.input_schema).items():
        text = f"{describe(member, tool.input_schema)}{'' if key in needed else ', optional'}"
        said = member.get("description") if isinstance(member, dict) else None
        if isinstance(said, str):
            text += f"; {printable(' '.join(said.split()))}"
        console.print_painted(console.look.wrap(f"{printable(key)}: {text}", indent="      "))


def _declared(visit: Visit) -> Iterator[str]:
    capabilities = visit.client.capabilities
    for kind in ("tools", "resources", "prompts"):
        capability = getattr(capabilities, kind)
        if capability is not None:
            tells = [text for text, is_told in (("changes of the list", capability.list_changed),) if is_told]
            if getattr(capability, "subscribe", False):
                tells.append("changes of each")
            yield f"{kind} (tells of {' and '.join(tells)})" if tells else kind
    for kind in ("completions", "logging"):
        if getattr(capabilities, kind) is not None:
            yield kind
    yield from sorted(capabilities.extensions or ())
    yield from sorted(capabilities.experimental or ())
