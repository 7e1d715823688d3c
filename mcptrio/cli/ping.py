"""``mcptrio ping``: pings a server, measures the response times, and prints a summary."""

from __future__ import annotations

from math import ceil
from statistics import median

import click
import trio

from mcptrio.cli.client.client_command import ClientCommand
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.exit_codes import ExitCode, line_of
from mcptrio.cli.param_types import IntegerRange, SecondsRange
from mcptrio.errors import MCPTrioError, RequestFailed, RequestTimeout

__all__ = ["command"]


@click.command("ping", cls=ClientCommand)
@click.option(
    "--count",
    type=IntegerRange("a number of at least 1", 1),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="The number of pings.",
)
@click.option(
    "--interval",
    type=SecondsRange("a number of seconds from 0 to 3600", 0, 3600),
    default=1,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two pings.",
)
async def command(cmd: CommandContext, count: int, interval: float) -> int:
    """Check whether a server answers.

    With --count, the command ends with a summary of lost pings and response times, also after Ctrl-C.
    """
    times: list[float] = []
    failures: list[MCPTrioError] = []
    # Ctrl-C ends only the pings. The command still prints the summary.
    with trio.CancelScope() as scope, cmd.console.interrupts.cancelling(scope):
        for number in range(1, count + 1):
            if number > 1:
                await trio.sleep(interval)
            try:
                times.append(await cmd.client.ping() * 1000)
            except MCPTrioError as error:
                failures.append(error)
                if count == 1 or not isinstance(error, RequestTimeout | RequestFailed):
                    break  # the connection is lost, or the server refuses every ping
                cmd.console.print_error(line_of(error))
            else:
                if not cmd.as_json:
                    cmd.console.print(f"{cmd.client.name}: {times[-1]:.2f} ms")
    if cmd.as_json and times:
        cmd.console.print_json({"revision": cmd.client.revision, "ms": [round(each, 3) for each in times]})
    elif count > 1 and (times or failures):
        _print_summary(cmd, times, len(failures))
    # Lost pings are only counted, unless none got an answer or the last error has ended the session.
    if failures and (not times or not isinstance(failures[-1], RequestTimeout | RequestFailed)):
        raise failures[-1]
    return ExitCode.INTERRUPTED if scope.cancelled_caught else ExitCode.DONE


def _print_summary(cmd: CommandContext, times: list[float], lost: int) -> None:
    line = f"{len(times) + lost} sent, {lost} lost"
    if times:
        # Nearest rank: always a measured time, and the maximum of fewer than 100.
        slow = sorted(times)[ceil(0.99 * len(times)) - 1]
        line += f": min {min(times):.2f}, median {median(times):.2f}, p99 {slow:.2f}, max {max(times):.2f} ms"
    cmd.console.print(cmd.console.layout.wrap(line), "bold")
