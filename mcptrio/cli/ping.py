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

    With --count, the command ends with a summary, also after Ctrl-C: the pings without an answer, and the response
    times.
    """
    took: list[float] = []
    failures: list[MCPTrioError] = []
    # Ctrl-C ends the pings but not the command, which still prints the summary.
    with trio.CancelScope() as scope, cmd.console.interrupts.cancelling(scope):
        for number in range(1, count + 1):
            if number > 1:
                await trio.sleep(interval)
            try:
                took.append(await cmd.client.ping() * 1000)
            except MCPTrioError as error:
                failures.append(error)
                if count == 1 or not isinstance(error, RequestTimeout | RequestFailed):
                    break  # the connection is lost, or the server refuses every ping
                cmd.console.print_error(line_of(error))
            else:
                if not cmd.as_json:
                    cmd.console.print(f"{cmd.client.name}: {took[-1]:.2f} ms")
    if cmd.as_json and took:
        cmd.console.print_json({"revision": cmd.client.revision, "ms": [round(each, 3) for each in took]})
    elif count > 1 and (took or failures):
        _sum_up(cmd, took, len(failures))
    # Lost pings are only counted, unless none got an answer or the last error has ended the session.
    if failures and (not took or not isinstance(failures[-1], RequestTimeout | RequestFailed)):
        raise failures[-1]
    return ExitCode.INTERRUPTED if scope.cancelled_caught else ExitCode.DONE


def _sum_up(cmd: CommandContext, took: list[float], lost: int) -> None:
    line = f"{len(took) + lost} sent, {lost} lost"
    if took:
        # Nearest rank: always a measured time, and the maximum of fewer than 100.
        slow = sorted(took)[ceil(0.99 * len(took)) - 1]
        line += f": min {min(took):.2f}, median {median(took):.2f}, p99 {slow:.2f}, max {max(took):.2f} ms"
    cmd.console.print(cmd.console.layout.wrap(line), "bold")
