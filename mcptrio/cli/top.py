"""``mcptrio top``: shows the sessions and requests of servers of this user, updated every second.

At a terminal it draws the page again until q or Ctrl-C; in a pipe it prints the page once.
Exit codes: 0 done, 2 invalid usage, 4 no such server, or it has ended; 130 interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import click
import trio

from mcptrio.cli.client.exit_codes import ExitCode
from mcptrio.cli.client.running import run_at_console
from mcptrio.cli.client.url_hints import has_no_path
from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.server.status_tree import status_lines
from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.keys import TerminalKey
from mcptrio.cli.terminal.screen import Screen
from mcptrio.cli.terminal.terminal import Terminal
from mcptrio.ground.quoting import quote
from mcptrio.serve.process_status import ProcessStatus, read_processes

__all__ = ["command"]

_INTERVAL: Final = 1.0
_LOCALHOST: Final = re.compile(r"^(\w+://)localhost(?=[:/]|$)", re.IGNORECASE)
"""The usual name of the address that a server binds by default."""


class _TopCommand(CLICommand):
    exit_codes = "Exit codes: 0 done; 2 invalid usage; 4 no such server, or it has ended; 130 interrupted."


@click.command("top", cls=_TopCommand)
@click.argument("server", metavar="[PID|URL]", required=False)
@click.option("--once", is_flag=True, help="Print once and exit, as in a pipe.")
@click.pass_context
def command(ctx: click.Context, server: str | None, once: bool) -> None:
    """Show what servers on this machine do, request by request.

    For each plugin: the sessions, and their requests with age, deadline, progress and what they wait for. PID or URL,
    as `mcptrio ps` prints them, selects a server; the URL needs no path. The PID of a parent selects its workers. Press
    q to exit.
    """
    ctx.exit(run_at_console(lambda: partial(_show, server, once)))


async def _show(server: str | None, once: bool, console: Console, terminal: Terminal | None) -> int:
    processes = await _find(server)
    if server is not None and not processes:
        console.print_error(f"no server {quote(server)} of this user is running here; `mcptrio ps` lists them")
        return ExitCode.CONNECTION
    if once or terminal is None or not (terminal.has_keys and console.is_out_terminal):
        for line in _page(processes, console):
            console.print_painted(line)
        return ExitCode.DONE
    screen = Screen(console)
    with terminal.keys() as read_key, screen.open():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_for_end, read_key, nursery.cancel_scope)
            while processes or server is None:
                screen.draw(_page(processes, console))
                await trio.sleep(_INTERVAL)
                processes = await _find(server)
            nursery.cancel_scope.cancel()
    if server is not None and not processes:
        console.print_error(f"the server {quote(server)} has ended")
        return ExitCode.CONNECTION
    return ExitCode.DONE


async def _find(server: str | None) -> Sequence[ProcessStatus]:
    processes = await read_processes()
    return processes if server is None else [each for each in processes if _matches(each, server)]


def _matches(process: ProcessStatus, server: str) -> bool:
    if server.isdecimal():
        return int(server) in (process.pid, process.parent)
    server = _LOCALHOST.sub(r"\g<1>127.0.0.1", server.rstrip("/"))
    # As in other commands, a URL without a path means the endpoint of that server.
    is_prefix = has_no_path(server)
    return any(
        address.rstrip("/") == server or (is_prefix and address.startswith(f"{server}/"))
        for address in process.addresses
    )


def _page(processes: Sequence[ProcessStatus], console: Console) -> list[str]:
    return status_lines(processes, console.layout) or ["no servers are running"]


async def _wait_for_end(read_key: Callable[[], Awaitable[TerminalKey]], scope: trio.CancelScope) -> None:
    while True:
        try:
            key = await read_key()
        except EOFError:
            break
        if key.name in ("interrupt", "end-of-input") or "q" in key.text:
            break
    scope.cancel()
