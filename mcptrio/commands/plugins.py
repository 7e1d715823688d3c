"""``mcptrio plugins``: what is installed, what each plugin contributes, and what is wrong with it.

Exit codes: 0 done, 1 failed, 2 wrong use or configuration.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from mcptrio.commands.log_output import log_to_stderr
from mcptrio.commands.plugin_server import Wanted, make_server, plugin_options, prints_on_stderr, read_config

__all__ = ["command"]


@click.command("plugins")
@plugin_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    plugins: tuple[str, ...], no_plugins: tuple[str, ...], config: Path | None, strict: bool, as_json: bool
) -> None:
    """List the plugins: version, distribution, what each contributes, state and fault."""
    read = read_config(config)
    log_to_stderr("error", "text")
    with prints_on_stderr():
        server = make_server(read, Wanted.of(read, plugins, no_plugins, strict), {})
    listed = server.snapshot()["plugins"]
    if as_json:
        click.echo(json.dumps(listed, indent=2))
        return
    rows = [("NAME", "VERSION", "DISTRIBUTION", "STATE", "CONTRIBUTES")]
    for each in listed:
        offers = ", ".join(f"{len(names)} {kind}" for kind, names in each["offers"].items())
        rows.append((each["name"], each["version"] or "-", each["distribution"] or "-", each["state"], offers or "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    for each in listed:
        if each["fault"]:
            click.echo(f"\n{each['name']}: {each['fault']}")
