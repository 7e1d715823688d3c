"""``mcptrio ps``: lists the servers of this user on this machine.

Exit codes: 0 done, 2 invalid usage.
"""

from __future__ import annotations

from typing import Final

import attrs
import click
import trio

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.server.status_tree import format_seconds
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.cli.terminal.layout import Style, TerminalLayout
from mcptrio.cli.terminal.text_width import cut
from mcptrio.ground.printable import printable
from mcptrio.serve.process_status import ProcessStatus, read_processes

__all__ = ["command"]

_HEAD = ("pid", "server", "transport", "address", "age", "sessions", "requests", "plugins")
_MAX_COLUMNS: Final = 60
"""Columns of the names of plugins."""
_STYLES: dict[str, Style] = {"no response": "red"}


@click.command("ps", cls=CLICommand)
@json_option
def command(as_json: bool) -> None:
    """List your servers on this machine.

    Each process has one line, also each worker of a server. REQUESTS is the number of requests in flight.
    """
    processes = trio.run(read_processes)
    if as_json:
        print_json({"servers": [attrs.asdict(each) for each in processes]})
        return
    layout = TerminalLayout.of_stdout()
    if not processes:
        click.echo(layout.wrap("no servers are running"), err=True)
        return
    rows = [_row(each) for each in processes]
    click.echo(layout.table(_HEAD, rows, optional=("age", "transport", "sessions"), styles=_STYLES))


def _row(process: ProcessStatus) -> tuple[str, ...]:
    status = process.status
    if status is None:
        return (str(process.pid), "no response", "", "", "", "", "", "")
    addresses = " ".join(process.addresses) or "-"
    return (
        str(process.pid),
        printable(status.name),
        printable(process.transport),
        printable(addresses),
        format_seconds(process.age or 0.0),
        str(process.sessions),
        str(status.in_flight),
        cut(printable(" ".join(each.name for each in status.plugins if each.state == "running")), _MAX_COLUMNS),
    )
