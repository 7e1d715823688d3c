"""``mcptrio store``: checks an engine that replicas share, brings its tables up to date, and counts its tasks.

The settings of the table ``[stores]`` apply, such as ``password_file`` and ``ca_file``.

Exit codes: 0 done, or no problem found; 1 failed, or a problem found; 2 invalid usage or configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import trio
from attrs import asdict

from mcptrio.abc import TaskQueue
from mcptrio.cli.help_pages import CLICommand, CLIGroup
from mcptrio.cli.server.config_options import config_option, read_config
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.cli.terminal.layout import Style, TerminalLayout
from mcptrio.errors import StoreFailed
from mcptrio.ground.quoting import printable
from mcptrio.stores.opening import find_tools, open_stores
from mcptrio.stores.settings import StoreSettings
from mcptrio.stores.urls import scheme_of

__all__ = ["command"]

_STYLES: dict[str, Style] = {"ok": "green", "problem": "red"}


@click.group("store", cls=CLIGroup)
def command() -> None:
    """Check the store that replicas share, bring its tables up to date, or count its tasks."""


@command.command("check", cls=CLICommand)
@click.argument("url")
@config_option
@json_option
@click.pass_context
def check(ctx: click.Context, url: str, config: Path | None, as_json: bool) -> None:
    """Check the Redis or PostgreSQL server at URL before replicas use it.

    Reports its version, latency and clock, the rights of the user, and its policy when its memory is full. Exit code 1
    if there is a problem.
    """
    checks = trio.run(find_tools(url).check, url, read_config(config).stores)
    problems = sum(not each.is_ok for each in checks)
    if as_json:
        print_json({"problems": problems, "checks": [asdict(each) for each in checks]})
    else:
        layout = TerminalLayout.of_stdout()
        rows = [
            ("ok" if each.is_ok else "problem", each.name, printable(_describe(each.found, each.advice, each.is_ok)))
            for each in checks
        ]
        click.echo(layout.table((), rows, styles=_STYLES))
    ctx.exit(1 if problems else 0)


@command.command("migrate", cls=CLICommand)
@click.argument("url")
@config_option
@json_option
def migrate(url: str, config: Path | None, as_json: bool) -> None:
    """Create the tables in the database at URL, or bring them up to date. A server never changes the tables."""
    try:
        migrations = trio.run(find_tools(url).migrate, url, read_config(config).stores)
    except StoreFailed as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json({"done": migrations})
        return
    layout = TerminalLayout.of_stdout()
    for each in migrations or ["everything is up to date"]:
        click.echo(layout.wrap(printable(each)))


@command.command("tasks", cls=CLICommand)
@click.argument("url")
@config_option
@json_option
def tasks(url: str, config: Path | None, as_json: bool) -> None:
    """Count the tasks at URL that have not ended: for each tool, those that wait for a worker and those that run.

    OLDEST is the age in seconds of the task that has waited longest. Add workers when it grows.
    """
    try:
        queues = trio.run(_count_tasks, url, read_config(config).stores)
    except StoreFailed as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json({"queues": [asdict(each) for each in queues]})
        return
    layout = TerminalLayout.of_stdout()
    if not queues:
        click.echo(layout.wrap("no tasks are queued or running"))
        return
    rows = [(printable(each.tool), str(each.queued), str(each.running), f"{each.oldest:.0f}") for each in queues]
    click.echo(layout.table(("tool", "queued", "running", "oldest"), rows))


async def _count_tasks(url: str, settings: StoreSettings) -> Sequence[TaskQueue]:
    async with open_stores(url, settings) as stores:
        if stores.tasks is None:
            raise StoreFailed(f"{scheme_of(url)}: expected a store that keeps tasks, got one that does not")
        return await stores.tasks.queues()


def _describe(found: str, advice: str, is_ok: bool) -> str:
    return found if is_ok or not advice else f"{found}; {advice}"
