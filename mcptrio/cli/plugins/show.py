"""``mcptrio plugins show``: details of one plugin.

Secrets are hidden; see :mod:`mcptrio.plugins.shown_settings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from attrs import asdict, evolve

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.server.plugin_server import ChosenPlugins, file_options, make_examined_server, plugin_names
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.cli.terminal.layout import TerminalLayout
from mcptrio.ground.quoting import printable
from mcptrio.ground.tracebacks import render
from mcptrio.plugins.discovery import check_offered
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.shown_settings import shown_settings
from mcptrio.plugins.tokens import estimated_tokens
from mcptrio.serve.config import ServeConfig
from mcptrio.server import Server

__all__ = ["command"]

_HINTS = ("read_only", "destructive", "idempotent", "open_world")


@click.command("show", cls=CLICommand)
@file_options
@click.option("--traceback", "with_traceback", is_flag=True, help="Show where in the code the plugin failed.")
@json_option
@click.argument("name", metavar="NAME", shell_complete=plugin_names)
def command(chosen: ChosenPlugins, name: str, with_traceback: bool, as_json: bool) -> None:
    """Show a plugin: its settings and their sources, tools, hooks and failures. NAME may be FILE.py."""
    # Import only this plugin, even if it is disabled.
    chosen = evolve(chosen, plugins=(name,), place="NAME")
    config = chosen.read()
    # The details contain the failure, so the log need not repeat it.
    server = make_examined_server(config, chosen.select(config), log_level="critical", imports_isolated=True)
    # A plugin from a file has the name of the file.
    name = name.removesuffix(".py").replace("\\", "/").rpartition("/")[2] if name.endswith(".py") else name
    check_offered([name], server.plugins.plugins)
    plugin = server.plugins.plugins[name]
    details = _details(server, plugin, config)
    if with_traceback and plugin.error is not None:
        details["traceback"] = render(plugin.error)
    if as_json:
        print_json(details)
        return
    for line in _lines(details, TerminalLayout.of_stdout()):
        click.echo(line)


def _details(server: Server, plugin: Plugin, config: ServeConfig) -> dict[str, Any]:
    cls = None if plugin.object is None or plugin.state == "disabled" else plugin.config_class
    table = config.plugins.get(plugin.name, {})
    tools = [each.tool for each in server.catalog.tools.registry if each.owner is plugin]
    resources = (server.catalog.resources.resources, server.catalog.resources.templates)
    return {
        **asdict(plugin.status),
        "isolated": plugin.policy.isolate,
        "settings": [asdict(each) for each in shown_settings(plugin, cls, table, config.where)],
        "tools": [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "hints": {
                    hint: value
                    for hint in _HINTS
                    if (value := getattr(tool.annotations, f"{hint}_hint", None)) is not None
                },
                "tokens": estimated_tokens(tool),
            }
            for tool in tools
        ],
        "resources": {
            each.key: each.listed.description for registry in resources for each in registry if each.owner is plugin
        },
        "prompts": {
            each.key: each.prompt.description for each in server.catalog.prompts.registry if each.owner is plugin
        },
        "hooks": server.plugins.hooks_of(plugin),
    }


def _lines(details: dict[str, Any], layout: TerminalLayout) -> Iterator[str]:
    yield layout.paint(printable(details["name"]), "bold")
    seconds = details["import_seconds"]
    for what, detail in (
        ("version", details["version"]),
        ("distribution", details["distribution"]),
        ("state", details["state"]),
        ("import", f"{seconds * 1000:.0f} ms" if seconds is not None else None),
        ("hooks", ", ".join(details["hooks"])),
    ):
        if detail:
            yield layout.wrap(printable(detail), indent="  ", label=f"{what + ':':<14}")
    if details["failure"]:
        yield layout.wrap(printable(details["failure"]), "red", indent="  ", label=f"{'failure:':<14}")
    for warning in details["warnings"]:
        yield layout.wrap(printable(warning), "yellow", indent="  ", label=f"{'warning:':<14}")
    if "traceback" in details:
        yield ""
        yield from (printable(line) for line in details["traceback"].rstrip("\n").split("\n"))
    if details["settings"]:
        yield layout.paint("\nsettings", "bold")
        width = max(len(each["name"]) for each in details["settings"])
        for each in details["settings"]:
            value = printable(f"{each['value']}  [{each['origin']}]")
            yield layout.wrap(value, "cyan", indent="  ", label=f"{each['name'].ljust(width)}  ")
    if details["tools"]:
        tokens = sum(each["tokens"] for each in details["tools"])
        yield layout.paint(
            layout.wrap(f"\ntools: {len(details['tools'])}, about {tokens} tokens (estimate: bytes / 4)"), "bold"
        )
        for tool in details["tools"]:
            hints = [hint if value else f"not {hint}" for hint, value in tool["hints"].items()]
            about = ", ".join([*(hint.replace("_", " ") for hint in hints), f"about {tool['tokens']} tokens"])
            yield layout.wrap(printable(f"({about})"), "cyan", indent="  ", label=f"{printable(tool['name'])} ")
            for line in (tool["description"] or "no description").splitlines():
                yield layout.wrap(printable(line), indent="    ")
    if details["withheld"]:
        yield layout.paint("\nwithheld", "bold")
        for name, reason in details["withheld"].items():
            yield layout.wrap(printable(reason), "yellow", indent="  ", label=f"{printable(name)}: ")
    for kind in ("resources", "prompts"):
        if details[kind]:
            yield layout.paint(f"\n{kind}", "bold")
            for name, description in details[kind].items():
                first = (description or "no description").partition("\n")[0]
                yield layout.wrap(printable(first), "cyan", indent="  ", label=f"{printable(name)}: ")
    others = {kind: names for kind, names in details["offers"].items() if kind not in ("tools", "resources", "prompts")}
    if others:
        yield ""
    for kind, names in others.items():
        yield layout.wrap(printable(", ".join(names)), label=f"{printable(kind)}: ")
