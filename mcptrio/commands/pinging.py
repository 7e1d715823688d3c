"""``mcptrio ping``: a sign of life, and how long it took."""

from __future__ import annotations

import click
import trio

from mcptrio.commands.client_command import ClientCommand
from mcptrio.commands.visit import Visit

__all__ = ["command"]


@click.command("ping", cls=ClientCommand)
@click.option(
    "--count", type=click.IntRange(min=1), default=1, show_default=True, metavar="NUMBER", help="Ask so often."
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0, max=3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long between two.",
)
async def command(visit: Visit, count: int, interval: float) -> None:
    """Ask a server for a sign of life."""
    took: list[float] = []
    for number in range(1, count + 1):
        if number > 1:
            await trio.sleep(interval)
        took.append(await visit.client.ping() * 1000)
        if not visit.as_json:
            visit.console.print(f"{visit.client.name}: {took[-1]:.2f} ms")
    if visit.as_json:
        visit.console.print_json({"revision": visit.client.revision, "ms": [round(each, 3) for each in took]})
    elif count > 1:
        least, mean, most = min(took), sum(took) / count, max(took)
        visit.console.print(f"{count} answers: least {least:.2f}, mean {mean:.2f}, most {most:.2f} ms")
