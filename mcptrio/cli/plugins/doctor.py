"""``mcptrio plugins doctor``: finds errors and risks of plugins.

No plugin is imported in this process. Each is checked in its own process with a time limit, so hanging, exiting and
crashing are findings too.

Exit codes: 0 no plugin is broken, 1 a plugin is broken, 2 invalid usage or configuration.
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
from mcptrio.cli.server.plugin_check import encode_request
from mcptrio.cli.server.plugin_server import ChosenPlugins, PluginSelection, named_plugin_options, plugin_names
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.cli.terminal.layout import Style, TerminalLayout, count_text
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
"""Seconds for which the children of a process may run after it has exited."""
_STYLES: dict[str, Style] = {"fine": "green", "warnings": "yellow", "broken": "red"}
_UNIQUE = ("tools", "resources", "prompts", "completions", "methods", "transports")
"""Kinds in which a name belongs to one plugin only."""


@define(eq=False)
class _PluginCheck:
    """The check of one plugin.

    Attributes:
        stage: The last stage that the process has begun.
        exit_code: The exit code of the process; ``None`` if it was stopped.
    """

    name: str
    stage: str = "starting Python"
    reports: list[dict[str, Any]] | None = None
    problem: str | None = None
    exit_code: int | None = None
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
    selection = chosen.select(config)
    checks = trio.run(_check_all, _plugins_to_check(selection), chosen, timeout)
    # Each process also reports the plugins of mcptrio itself, which are shown once.
    plugins = list({report["name"]: report for each in checks for report in _reports(each, timeout)}.values())
    overall = _check_together(plugins, config)
    broken = sum(len(each["problems"]) for each in [*plugins, overall])
    warnings = sum(len(each["warnings"]) for each in [*plugins, overall])
    tokens = sum(sum(each["tokens"].values()) for each in plugins)
    if as_json:
        print_json({"broken": broken, "warnings": warnings, "tokens": tokens, "plugins": plugins, "together": overall})
    else:
        layout = TerminalLayout.of_stdout()
        for line in _lines(plugins, overall, layout):
            click.echo(line)
        cost = f"{count_text(len(plugins), 'plugins')}, about {count_text(tokens, 'tokens')} (estimate)"
        click.echo(layout.wrap(f"{cost}: {broken} broken, {count_text(warnings, 'warnings')}"))
    ctx.exit(1 if broken else 0)


def _plugins_to_check(selection: PluginSelection) -> list[str]:
    """Return the plugins to check: installed ones by name, files by path."""
    installed = installed_entry_points()
    check_offered((*(selection.names or ()), *selection.without), installed)
    names = [name for name in installed if selection.names is None or name in selection.names]
    return [*(name for name in names if name not in selection.without), *map(str, selection.files)]


async def _check_all(names: Sequence[str], chosen: ChosenPlugins, timeout: float) -> list[_PluginCheck]:
    checks = [_PluginCheck(name) for name in names]
    # More processes than CPUs would slow each other down until they exceed their time limits.
    limiter = trio.CapacityLimiter(max(1, os.cpu_count() or 1))
    async with trio.open_nursery() as nursery:
        for each in checks:
            nursery.start_soon(_check_plugin, each, encode_request(each.name, chosen), timeout, limiter)
    return checks


async def _check_plugin(check: _PluginCheck, request: str, timeout: float, limiter: trio.CapacityLimiter) -> None:
    command = mcptrio_command(request, module="mcptrio.cli.server.plugin_check")
    async with limiter:
        process = start_process(command, env=os.environ)
        # A plugin that reads standard input gets the end of file and does not wait.
        os.close(process.stdin)
        stderr = ChildStderr(process.stderr, "drop", name=check.name)
        reader = open_reader(process.stdout)
        data = bytearray()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stderr.listen)
                with trio.move_on_after(timeout):
                    await _read_to_end(reader, data)
                    # The output was closed, perhaps by a child; the process itself may still run.
                    check.exit_code = await process.wait()
                # The process must not survive if the command is cancelled.
                with trio.CancelScope(shield=True):
                    # Bounded by _CLOSE_TIMEOUT, and by the time that a killed process takes to disappear.
                    await process.end(exit=0 if check.exit_code is None else _CLOSE_TIMEOUT, terminate=_CLOSE_TIMEOUT)
                stderr.close()
        finally:
            reader.close()
        check.last_lines = stderr.last_lines
    for line in data.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict):
            continue  # printed before plugin_check redirected standard output
        check.stage = message.get("stage", check.stage)
        check.reports = message.get("report", check.reports)
        check.problem = message.get("problem", check.problem)


async def _read_to_end(reader: ByteReader, data: bytearray) -> None:
    with suppress(OSError, ConnectionClosed):
        while len(data) <= _MAX_ANSWER_BYTES and (chunk := await reader.read()):
            data += chunk


def _reports(check: _PluginCheck, timeout: float) -> list[dict[str, Any]]:
    """Return the process's report of its plugin, or a report of how the process ended."""
    if check.reports is not None:
        return check.reports
    if check.problem is not None:
        problem = check.problem
    elif check.exit_code is None:
        problem = f"{check.stage} did not end within {timeout:g} s"
    # The exit code of a process that a signal has killed is the negative number of the signal.
    elif check.exit_code < 0:
        problem = f"{check.stage} ended the process: {signal_name(-check.exit_code)}"
    else:
        problem = f"{check.stage} ended the process, with exit code {check.exit_code}"
    points = installed_entry_points().get(check.name)
    distribution, version = distribution_of(points[0]) if points else (None, None)
    return [
        {
            "name": check.name,
            "version": version,
            "distribution": distribution,
            "state": "unknown",
            "import_seconds": None,
            "offers": {},
            "tokens": {},
            "called": [],
            "may_be_renamed": False,
            "problems": [problem],
            "warnings": [f"its last output: {line}" for line in check.last_lines[-1:]],
        }
    ]


def _check_together(plugins: Sequence[dict[str, Any]], config: ServeConfig) -> dict[str, list[str]]:
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


def _lines(plugins: Sequence[dict[str, Any]], overall: dict[str, list[str]], layout: TerminalLayout) -> Iterator[str]:
    for plugin in plugins:
        seconds = plugin["import_seconds"]
        tokens = count_text(sum(plugin["tokens"].values()), "tokens")
        about = f"{count_text(len(plugin['tokens']), 'tools')}, about {tokens}"
        about += f", imported in {seconds * 1000:.0f} ms" if seconds is not None else ""
        verdict = "broken" if plugin["problems"] else "warnings" if plugin["warnings"] else "fine"
        label = f"{printable(plugin['name'])}: {verdict} "
        yield layout.wrap(f"({about})", _STYLES[verdict], label=label)
        yield from _findings(plugin, layout)
    if overall["problems"] or overall["warnings"]:
        yield "all plugins:"
        yield from _findings(overall, layout)


def _findings(report: dict[str, Any], layout: TerminalLayout) -> Iterator[str]:
    for label, kind in (("broken", "problems"), ("warning", "warnings")):
        style = _STYLES["broken" if label == "broken" else "warnings"]
        yield from (layout.wrap(printable(each), style, indent="  ", label=f"{label}: ") for each in report[kind])
