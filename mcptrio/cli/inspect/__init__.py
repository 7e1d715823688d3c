"""``mcptrio inspect``: shows a server, its entries and their cost, and lists findings.

It only requests lists; it calls no tool.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import click
from attrs import Factory, asdict, define

from mcptrio.cli.client.client_command import ClientCommand
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.exit_codes import ExitCode
from mcptrio.cli.client.schema_words import describe, properties, required
from mcptrio.cli.inspect.lint import (
    SEVERITIES,
    LintFinding,
    lint_prompts,
    lint_resources,
    lint_templates,
    lint_text,
    lint_tools,
)
from mcptrio.cli.terminal.console import readable
from mcptrio.cli.terminal.layout import Style, count_text
from mcptrio.errors import MCPError, MethodNotFound, RemoteProtocolError
from mcptrio.ground.quoting import printable
from mcptrio.plugins.tokens import estimated_tokens
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.protocol.model.tools import Tool
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS

__all__ = ["command"]

_MAX_PAGES = 200
_MANY_TOKENS = 20_000
"""Tokens of all tools above which some host applications load tools only on demand."""
_STYLES: dict[str, Style] = {"error": "red", "warning": "yellow", "note": "dim"}
_METHODS = {
    "tools": ("tools/list", "tools"),
    "resources": ("resources/list", "resources"),
    "templates": ("resources/templates/list", "resource_templates"),
    "prompts": ("prompts/list", "prompts"),
}


@define
class _Lists:
    """The readable part of a server's lists, and the findings about them."""

    tools: list[Tool] = Factory(list)
    resources: list[Resource] = Factory(list)
    templates: list[ResourceTemplate] = Factory(list)
    prompts: list[Prompt] = Factory(list)
    findings: list[LintFinding] = Factory(list)


@click.command("inspect", cls=ClientCommand)
@click.option("--strict", is_flag=True, help="Exit with code 1 if there is a warning or an error.")
async def command(cmd: CommandContext, strict: bool) -> int:
    """Describe a server: its tools, resources and prompts, their size in tokens, and problems found.

    Costs are estimates: four bytes of JSON count as one token. Texts that look like prompt injection are
    reported; a server without such findings is not necessarily trustworthy.
    """
    lists = await _list_all(cmd)
    findings = [*lists.findings, *_lint(cmd, lists)]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    if cmd.as_json:
        cmd.console.print_json(_as_json(cmd, lists, findings))
    else:
        _show(cmd, lists, findings)
    fails = strict and any(finding.severity != "note" for finding in findings)
    return ExitCode.FAILED if fails else ExitCode.DONE


async def _list_all(cmd: CommandContext) -> _Lists:
    """Request all lists, with raw requests: the client's methods check capabilities and omit invalid entries."""
    lists = _Lists()
    capabilities = cmd.client.capabilities
    for kind, (method, member) in _METHODS.items():
        feature = "resources" if kind == "templates" else kind
        is_declared = getattr(capabilities, feature) is not None
        items = getattr(lists, kind)
        pages = 0
        try:
            async for page in _request_pages(cmd, method):
                items.extend(getattr(page, member))
                pages += 1
        except MCPError as error:
            # Servers with resources and without templates are common, and correct.
            if is_declared and (kind != "templates" or not isinstance(error, MethodNotFound)):
                what = f"is refused, although {feature} is declared: {error}"
                lists.findings.append(LintFinding("error", method, what))
        # One unreadable list must not hide the others.
        except RemoteProtocolError as error:
            lists.findings.append(LintFinding("error", method, f"cannot be read: {error}"))
        if items and not is_declared:
            lists.findings.append(LintFinding("warning", method, f"is answered, although {feature} is not declared"))
        # A server with resources may have only templates, so an empty list of resources is normal.
        elif is_declared and pages and not items and kind in ("tools", "prompts"):
            lists.findings.append(LintFinding("note", method, f"is empty, although {feature} is declared"))
    return lists


async def _request_pages(cmd: CommandContext, method: str) -> AsyncIterator[Any]:
    cursor: str | None = None
    # Bounded, because a server can return pages without end.
    for _ in range(_MAX_PAGES):
        page = await cmd.client.request(method, {} if cursor is None else {"cursor": cursor})
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return
    raise RemoteProtocolError(f"has more than {_MAX_PAGES} pages")


def _lint(cmd: CommandContext, lists: _Lists) -> Iterator[LintFinding]:
    client = cmd.client
    revision = REVISIONS[client.revision]
    if revision is not LATEST:
        yield LintFinding("note", "server", f"speaks {revision.version}; the newest is {LATEST.version}")
    info = client.server_info
    if info is None or not info.name or not info.version:
        yield LintFinding("note", "server", "does not send its name and version")
    else:
        yield from lint_text("server", info.name, info.title, info.description)
    yield from lint_text("instructions", client.instructions)
    yield from lint_tools(lists.tools, sends_param_headers=revision.http.mirrored_headers)
    yield from lint_resources(lists.resources)
    yield from lint_templates(lists.templates)
    yield from lint_prompts(lists.prompts)
    cost = sum(map(estimated_tokens, lists.tools))
    if cost > _MANY_TOKENS:
        yield LintFinding("warning", "tools", f"take about {cost:,} tokens of each conversation")


def _as_json(cmd: CommandContext, lists: _Lists, findings: Sequence[LintFinding]) -> dict[str, Any]:
    client = cmd.client
    return {
        "server": cmd.wire(client.server_info) if client.server_info is not None else None,
        "revision": client.revision,
        "capabilities": cmd.wire(client.capabilities),
        "instructions": client.instructions,
        "tools": [{**cmd.wire(tool), "tokens": estimated_tokens(tool)} for tool in lists.tools],
        "resources": [cmd.wire(each) for each in lists.resources],
        "resourceTemplates": [cmd.wire(each) for each in lists.templates],
        "prompts": [cmd.wire(each) for each in lists.prompts],
        "tokens": sum(map(estimated_tokens, lists.tools)),
        "findings": [asdict(finding) for finding in findings],
    }


def _show(cmd: CommandContext, lists: _Lists, findings: Sequence[LintFinding]) -> None:
    console, client = cmd.console, cmd.client
    layout, info = console.layout, client.server_info
    name = f"{info.title or info.name} {info.version}" if info is not None else "does not say"
    rows = [
        ("server", name),
        ("revision", client.revision),
        ("declares", ", ".join(_declared_capabilities(cmd)) or "nothing"),
    ]
    rows.extend((kind, str(len(getattr(lists, kind)))) for kind in _METHODS)
    if lists.tools:
        rows.append(("cost", f"about {count_text(sum(map(estimated_tokens, lists.tools)), 'tokens')} for the tools"))
    for label, text in rows:
        console.print_painted(layout.wrap(printable(text), "bold", label=f"{label:<12}"))
    if client.instructions:
        console.print_painted(console.layout.paint("instructions", "bold"))
        # Both functions escape control characters, with which a server could rewrite the terminal; `readable` keeps
        # line breaks.
        console.print_painted(layout.wrap(readable(client.instructions.rstrip("\n")), indent="    "))
    for tool in lists.tools:
        _show_tool(cmd, tool)
    console.print()
    if not findings:
        console.print_painted(layout.paint("no findings", "green"))
    for finding in findings:
        line = f"{printable(finding.where)}: {printable(finding.what)}"
        console.print_painted(layout.wrap(line, _STYLES[finding.severity], label=f"{finding.severity:<8} "))


def _show_tool(cmd: CommandContext, tool: Tool) -> None:
    console = cmd.console
    hints = tool.annotations
    notes = [f"about {count_text(estimated_tokens(tool), 'tokens')}"]
    if hints is not None:
        notes.extend(
            text
            # Annotations are claims of a server that may be untrusted (2026-07-28, server/tools).
            for text, is_set in (
                ("claims to be read-only", hints.read_only_hint),
                ("claims to be destructive", hints.destructive_hint),
                ("claims to be idempotent", hints.idempotent_hint),
                ("claims to be open-world", hints.open_world_hint),
            )
            if is_set
        )
    console.print()
    console.print_painted(console.layout.wrap(f"({'; '.join(notes)})", "cyan", label=f"{printable(tool.name)}  "))
    if description := (tool.description or "").strip():
        console.print_painted(console.layout.wrap(readable(description), indent="    "))
    needed = required(tool.input_schema, tool.input_schema)
    for key, member in properties(tool.input_schema, tool.input_schema).items():
        text = f"{describe(member, tool.input_schema)}{'' if key in needed else ', optional'}"
        about = member.get("description") if isinstance(member, dict) else None
        if isinstance(about, str):
            text += f"; {printable(' '.join(about.split()))}"
        console.print_painted(console.layout.wrap(f"{printable(key)}: {text}", indent="      "))


def _declared_capabilities(cmd: CommandContext) -> Iterator[str]:
    capabilities = cmd.client.capabilities
    for kind in ("tools", "resources", "prompts"):
        capability = getattr(capabilities, kind)
        if capability is not None:
            reports = ["changes of the list"] if capability.list_changed else []
            if getattr(capability, "subscribe", False):
                reports.append("changes of each")
            yield f"{kind} (reports {' and '.join(reports)})" if reports else kind
    for kind in ("completions", "logging"):
        if getattr(capabilities, kind) is not None:
            yield kind
    yield from sorted(capabilities.extensions or ())
    yield from sorted(capabilities.experimental or ())
