"""``mcptrio plugins doctor``: finds errors and risks of plugins.

No plugin is imported in this process. Each is checked in its own process with a time limit, so hanging, exiting and
crashing are findings too.

Exit codes: 0 nothing is broken, 1 something is, 2 invalid usage or configuration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import click
import trio
from attrs import define, evolve

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.param_types import SECONDS
from mcptrio.cli.server.plugin_check import question
from mcptrio.cli.server.plugin_server import ChosenPlugins, WantedPlugins, named_plugin_options, plugin_names
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.cli.terminal.layout import Style, TerminalLayout, counted
from mcptrio.errors import ConnectionClosed
from mcptrio.ground.mcptrio_command import mcptrio_command
from mcptrio.ground.quoting import printable
from mcptrio.plugins.discovery import check_offered, distribution_of, installed_entry_points
from mcptrio.plugins.portability import MAX_TOKENS
from mcptrio.serve.config import ServeConfig
from mcptrio.transports.child_process import signal_name, start_process
from mcptrio.transports.child_stderr import ChildStderr
from mcptrio.transports.fd_streams import ByteReader, open_reader

__all__ = ["command"]

_MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Maximum bytes of one answer. A longer one is cut, and then contains no report."""
_CLOSE_TIMEOUT = 0.5
"""Seconds for the children of a process that has exited."""
_STYLES: dict[str, Style] = {"fine": "green", "warnings": "yellow", "broken": "red"}
_UNIQUE = ("tools", "resources", "prompts", "completions", "methods", "transports")
"""Kinds in which a name belongs to one plugin only."""


@define(eq=False)
class _Examined:
    """The check of one plugin.

    Attributes:
        stage: The stage at which the process ended.
        ended: Its exit code; ``None`` if it was stopped.
    """

    name: str
    stage: str = "starting Python"
    reports: list[dict[str, Any]] | None = None
    problem: str | None = None
    ended: int | None = None
    last_lines: Sequence[str] = ()


@click.command("doctor", cls=CLICommand)
@named_plugin_options
@click.option(
    "--timeout",
    type=SECONDS,
    default=20,
    show_default=True,
    metavar="SECONDS",
    help="Seconds for the check of each plugin.",
)
@json_option
@click.argument("plugins", nargs=-1, metavar="[NAME]...", shell_complete=plugin_names)
@click.pass_context
def command(ctx: click.Context, chosen: ChosenPlugins, timeout: float, as_json: bool) -> None:
    """Check the plugins: each is imported in its own process, with a time limit.

    NAME may be FILE.py. Without NAME, all installed plugins are checked. Exit code 1 if a plugin is broken.
    """
    chosen = evolve(chosen, place="NAME")
    config = chosen.read()
    wanted = chosen.wanted(config)
    examined = trio.run(_examine_all, _names(wanted), chosen, timeout)
    # Each process also reports the plugins of mcptrio itself, which are shown once.
    plugins = list({report["name"]: report for each in examined for report in _reports(each, timeout)}.values())
    found = _overall(plugins, config)
    broken = sum(len(each["problems"]) for each in [*plugins, found])
    warnings = sum(len(each["warnings"]) for each in [*plugins, found])
    tokens = sum(sum(each["tokens"].values()) for each in plugins)
    if as_json:
        print_json({"broken": broken, "warnings": warnings, "tokens": tokens, "plugins": plugins, "together": found})
    else:
        layout = TerminalLayout.of_stdout()
        for line in _lines(plugins, found, layout):
            click.echo(line)
        cost = f"{counted(len(plugins), 'plugins')}, about {counted(tokens, 'tokens')} (estimate)"
        click.echo(layout.wrap(f"{cost}: {broken} broken, {counted(warnings, 'warnings')}"))
    ctx.exit(1 if broken else 0)


def _names(wanted: WantedPlugins) -> list[str]:
    """Return the plugins to check: installed ones by name, files by path."""
    there = installed_entry_points()
    check_offered((*(wanted.names or ()), *wanted.without), there)
    names = [name for name in there if wanted.names is None or name in wanted.names]
    return [*(name for name in names if name not in wanted.without), *map(str, wanted.files)]


async def _examine_all(names: Sequence[str], chosen: ChosenPlugins, timeout: float) -> list[_Examined]:
    examined = [_Examined(name) for name in names]
    # More processes than CPUs would slow each other down until they exceed their time limits.
    at_once = trio.CapacityLimiter(max(1, os.cpu_count() or 1))
    async with trio.open_nursery() as nursery:
        for each in examined:
            nursery.start_soon(_examine, each, question(each.name, chosen), timeout, at_once)
    return examined


async def _examine(examined: _Examined, question: str, timeout: float, at_once: trio.CapacityLimiter) -> None:
    command = mcptrio_command(question, module="mcptrio.cli.server.plugin_check")
    async with at_once:
        process = start_process(command, env=os.environ)
        # A plugin that reads standard input finds its end, instead of waiting.
        os.close(process.stdin)
        stderr = ChildStderr(process.stderr, "drop", name=examined.name)
        reader = open_reader(process.stdout)
        data = bytearray()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stderr.listen)
                with trio.move_on_after(timeout):
                    await _read_to_end(reader, data)
                    # The output was closed, perhaps by a child; the process itself may still run.
                    examined.ended = await process.wait()
                # The process must not survive if the command is cancelled.
                with trio.CancelScope(shield=True):
                    # Bounded by _CLOSE_TIMEOUT, and by the time that a killed process takes to disappear.
                    await process.end(exit=0 if examined.ended is None else _CLOSE_TIMEOUT, terminate=_CLOSE_TIMEOUT)
                stderr.close()
        finally:
            reader.close()
        examined.last_lines = stderr.last_lines
    for line in data.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict):
            continue  # printed before plugin_check redirected standard output
        examined.stage = message.get("stage", examined.stage)
        examined.reports = message.get("report", examined.reports)
        examined.problem = message.get("problem", examined.problem)


async def _read_to_end(reader: ByteReader, data: bytearray) -> None:
    with suppress(OSError, ConnectionClosed):
        while len(data) <= _MAX_ANSWER_BYTES and (chunk := await reader.read()):
            data += chunk


def _reports(examined: _Examined, timeout: float) -> list[dict[str, Any]]:
    """Return the process's report of its plugin, or a report of how the process ended."""
    if examined.reports is not None:
        return examined.reports
    if examined.problem is not None:
        problem = examined.problem
    elif examined.ended is None:
        problem = f"{examined.stage} did not end within {timeout:g} s"
    # The exit code of a process that a signal has killed is the negative number of the signal.
    elif examined.ended < 0:
        problem = f"{examined.stage} ended the process: {signal_name(-examined.ended)}"
    else:
        problem = f"{examined.stage} ended the process, with exit code {examined.ended}"
    points = installed_entry_points().get(examined.name)
    distribution, version = distribution_of(points[0]) if points else (None, None)
    return [
        {
            "name": examined.name,
            "version": version,
            "distribution": distribution,
            "state": "unknown",
            "import_seconds": None,
            "offers": {},
            "tokens": {},
            "called": [],
            "may_be_renamed": False,
            "problems": [problem],
            "warnings": [f"its last output: {line}" for line in examined.last_lines[-1:]],
        }
    ]


def _overall(plugins: Sequence[dict[str, Any]], config: ServeConfig) -> dict[str, list[str]]:
    problems: list[str] = []
    warnings: list[str] = []
    owners: dict[tuple[str, str], str] = {}
    for plugin in plugins:
        for kind in _UNIQUE:
            for name in plugin["offers"].get(kind, ()):
                owner = owners.setdefault((kind, name), plugin["name"])
                if owner == plugin["name"]:
                    continue
                both = f"{kind.removesuffix('s')} {name} is offered by {owner} and {plugin['name']}"
                if kind == "tools" and plugin["may_be_renamed"]:
                    warnings.append(f"{both}; that of {plugin['name']} is renamed")
                else:
                    problems.append(f"{both}; {plugin['name']} would be left out")
    tokens = sum(sum(plugin["tokens"].values()) for plugin in plugins)
    if tokens > MAX_TOKENS:
        warnings.append(
            f"all tools together take about {tokens} tokens of every conversation, more than {MAX_TOKENS}:"
            " leave out what is not needed, with disable, include or exclude"
        )
    known = {*installed_entry_points(), *(plugin["name"] for plugin in plugins)}
    files = {
        name.removesuffix(".py").rpartition("/")[2]
        for name in (*(config.server.enable or ()), *(config.server.only or ()))
    }
    unknown = [name for name in config.plugins if name not in known | files]
    warnings += [str(config.error(("plugins", name), "no such plugin is installed")) for name in unknown]
    return {"problems": problems, "warnings": warnings}


def _lines(plugins: Sequence[dict[str, Any]], found: dict[str, list[str]], layout: TerminalLayout) -> Iterator[str]:
    for plugin in plugins:
        seconds = plugin["import_seconds"]
        about = f"{counted(len(plugin['tokens']), 'tools')}, about {counted(sum(plugin['tokens'].values()), 'tokens')}"
        about += f", imported in {seconds * 1000:.0f} ms" if seconds is not None else ""
        verdict = "broken" if plugin["problems"] else "warnings" if plugin["warnings"] else "fine"
        label = f"{printable(plugin['name'])}: {verdict} "
        yield layout.wrap(f"({about})", _STYLES[verdict], label=label)
        yield from _findings(plugin, layout)
    if found["problems"] or found["warnings"]:
        yield "all plugins:"
        yield from _findings(found, layout)


def _findings(of: dict[str, Any], layout: TerminalLayout) -> Iterator[str]:
    for label, kind in (("broken", "problems"), ("warning", "warnings")):
        style = _STYLES["broken" if label == "broken" else "warnings"]
        yield from (layout.wrap(printable(each), style, indent="  ", label=f"{label}: ") for each in of[kind])
