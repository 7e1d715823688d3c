"""``mcptrio tasks``: lists the detached tasks, each with its current state."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import click
import trio
from attrs import define

from mcptrio.cli.client.client_settings import VARIABLES, client_settings
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.detached_tasks import DetachedTask, DetachedTasks
from mcptrio.cli.client.exit_codes import EXIT_CODES, ExitCode, line_of, root_error
from mcptrio.cli.client.running import run_at_console, run_connected
from mcptrio.cli.client.targets import find_target
from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.json_output import json_option
from mcptrio.cli.terminal.layout import Style
from mcptrio.cli.terminal.terminal import Terminal
from mcptrio.errors import InvalidParams, MCPTrioError
from mcptrio.ground.quoting import printable

__all__ = ["command"]

_TIMEOUT = 10.0
"""Seconds for a connection to a server, and for each of its answers."""
_MAX_CONNECTIONS = 8
"""Servers with a connection at the same time."""
_HEAD = ("id", "status", "tool", "started", "server", "message")
_STYLES: dict[str, Style] = {"completed": "green", "failed": "red", "unknown": "red", "input_required": "yellow"}


class _TasksCommand(CLICommand):
    arguments = (("TARGET", "Only the tasks of this server, written as in `mcptrio call`."),)
    environment = VARIABLES


@define
class _Row:
    """A task, and the state that its server reports."""

    task: DetachedTask
    status: str = "unreachable"
    """``unreachable``: the server was not reached; ``unknown``: the server does not know the task any more."""
    message: str | None = None


@click.command("tasks", cls=_TasksCommand, epilog=EXIT_CODES)
@click.argument("target", required=False)
@json_option
@click.pass_context
def command(ctx: click.Context, target: str | None, as_json: bool) -> None:
    """List the detached tasks with their present state.

    `mcptrio call --detach` adds to this list. It has the last 100 tasks. A task that its server has deleted is shown
    as unknown once, and leaves the list.
    """
    rows = [_Row(each) for each in trio.run(DetachedTasks.here().all) if target in (None, each.target)]

    work = partial(_show, rows, as_json)
    ctx.exit(run_at_console(lambda: work, redirects_output=any(row.task.plugins for row in rows)))


async def _show(rows: list[_Row], as_json: bool, console: Console, _terminal: Terminal | None) -> int:
    servers: dict[Hashable, list[_Row]] = {}
    for row in rows:
        servers.setdefault(row.task.server_key, []).append(row)
    limiter = trio.CapacityLimiter(_MAX_CONNECTIONS)
    async with trio.open_nursery() as nursery:
        for each in servers.values():
            if each[0].task.has_url:
                nursery.start_soon(_request_states, each, console, limiter)
    # One after the other: a process has one current folder.
    for each in servers.values():
        if not each[0].task.has_url:
            await _request_states(each, console, limiter)
    for row in rows:
        if row.status == "unknown":
            await DetachedTasks.here().remove(row.task.id)
    if as_json:
        console.print_json({"tasks": [_values(row) for row in rows]})
    elif rows:
        cells = [_cells(row) for row in rows]
        console.print_painted(console.layout.table(_HEAD, cells, optional=("started", "server"), styles=_STYLES))
    else:
        # On standard error: standard output contains only tasks.
        console.note("no detached tasks")
    return ExitCode.DONE


async def _request_states(rows: list[_Row], console: Console, limiter: trio.CapacityLimiter) -> None:
    """Ask one server for the states of its tasks."""
    task = rows[0].task
    options = task.options(settings=client_settings(), timeout=_TIMEOUT)

    async def ask(cmd: CommandContext) -> int:
        for row in rows:
            try:
                state = await cmd.client.task(row.task.id).state()
            except InvalidParams:
                row.status = "unknown"
            else:
                row.status, row.message = state.status, state.message
        return ExitCode.DONE

    async with limiter:
        try:
            with task.in_folder():
                # Without the terminal, so that no question and no offer to log in interrupts the list.
                await run_connected(ask, options, find_target(options), console, None)
        except (MCPTrioError, OSError, BaseExceptionGroup) as error:
            failure = root_error(error)
            if not isinstance(failure, MCPTrioError | OSError):
                raise
            for row in rows:
                if row.status == "unreachable":
                    row.message = line_of(failure)


def _cells(row: _Row) -> list[str]:
    started = row.task.started_at.astimezone().strftime("%Y-%m-%d %H:%M")
    texts = (row.task.id, row.status, row.task.tool, started, row.task.server, row.message or "")
    # Each task has one line in the table, so line breaks in a server's text become spaces.
    return [printable(" ".join(text.split())) for text in texts]


def _values(row: _Row) -> dict[str, Any]:
    return {
        "id": row.task.id,
        "status": row.status,
        "message": row.message,
        "tool": row.task.tool,
        "server": row.task.server,
        "started": row.task.started_at.isoformat(timespec="seconds"),
    }
