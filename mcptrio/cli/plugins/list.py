"""``mcptrio plugins list``: a table of plugins with the cost of their tools.

No lifespan is opened, so errors in lifespans are not found.
"""

from __future__ import annotations

from typing import Any

import click
from attrs import asdict

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.server.plugin_server import ChosenPlugins, make_examined_server, plugin_options
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.cli.terminal.layout import Style, TerminalLayout, count_text
from mcptrio.ground.quoting import printable
from mcptrio.plugins.tokens import tokens_by_tool

__all__ = ["command"]

_HEAD = ("NAME", "VERSION", "DISTRIBUTION", "STATE", "TOOLS", "TOKENS", "IMPORT", "CONTRIBUTES")
_OPTIONAL = ("IMPORT", "DISTRIBUTION", "CONTRIBUTES", "VERSION")
"""Columns that are left out of a table that is too wide for the terminal, in this order."""
_STYLES: dict[str, Style] = {"loaded": "green", "disabled": "dim", "quarantined": "red"}

_NO_PLUGINS = """no plugins: none is installed, or server.enable selects none
  install one:  mcptrio plugins install NAME, or the folder of its package
  write one:    mcptrio new NAME
  use a file:   mcptrio plugins --plugin FILE.py"""


@click.command("list", cls=CLICommand)
@plugin_options
@json_option
def command(chosen: ChosenPlugins, as_json: bool) -> None:
    """List the plugins with version, distribution, state, entries and failure."""
    config = chosen.read()
    server = make_examined_server(config, chosen.select(config))
    plugins = [
        {**asdict(each), "tokens": sum(tokens_by_tool(server.catalog, each.name).values())}
        for each in server.status.plugins
    ]
    tokens = sum(each["tokens"] for each in plugins)
    if as_json:
        print_json({"plugins": plugins, "tokens": tokens})
        return
    if not plugins:
        click.echo(_NO_PLUGINS, err=True)
        return
    layout = TerminalLayout.of_stdout()
    click.echo(_table(plugins, layout))
    tools = sum(len(each["offers"].get("tools", ())) for each in plugins)
    if tools:
        cost = f"{count_text(tools, 'tools')}, about {count_text(tokens, 'tokens')} in each conversation"
        click.echo("\n" + layout.wrap(f"{cost} (estimate: bytes / 4)"))
    isolated = [each["name"] for each in plugins if each["isolated"] and not each["failure"]]
    if isolated:
        click.echo(layout.wrap(f"not counted, since they run in separate processes: {printable(', '.join(isolated))}"))
    for each in plugins:
        notes = [each["failure"]] if each["failure"] else []
        if each["isolated"] and not each["failure"]:
            notes.append("its process is not started here: mcptrio plugins show lists what it has")
        notes += each["warnings"]
        notes += [f"tool {name} is withheld: {reason}" for name, reason in each["withheld"].items()]
        style: Style = "red" if each["failure"] else "yellow"
        for index, line in enumerate(notes):
            label = f"{printable(each['name'])}: "
            click.echo(("\n" if index == 0 else "") + layout.wrap(printable(line), style, label=label))


def _table(plugins: list[dict[str, Any]], layout: TerminalLayout) -> str:
    rows: list[list[str]] = []
    for each in plugins:
        offers = ", ".join(count_text(len(names), kind) for kind, names in each["offers"].items())
        seconds = each["import_seconds"]
        tools = len(each["offers"].get("tools", ()))
        cells = (
            each["name"],
            each["version"] or "-",
            each["distribution"] or "-",
            f"{each['state']}, isolated" if each["isolated"] else each["state"],
            str(tools) if tools else "-",
            str(each["tokens"]) if tools else "-",
            f"{seconds * 1000:.0f} ms" if seconds is not None else "-",
            offers or "-",
        )
        rows.append([printable(cell) for cell in cells])
    return layout.table(_HEAD, rows, optional=_OPTIONAL, styles=_STYLES)
