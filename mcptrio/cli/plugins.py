"""``mcptrio plugins``: what is installed, what each plugin contributes, and what is wrong with it; and more of them.

The one rule: without a subcommand it lists, with the options of ``list``.
Exit codes: 0 done, 1 failed, 2 wrong use or configuration.
"""

from __future__ import annotations

import click

from mcptrio.cli import doctoring, plugin_installing, plugin_listing, plugin_showing, plugin_switching
from mcptrio.cli.help_pages import Group

__all__ = ["command"]

_HELP = ("-h", "--help")


class _Group(Group):
    """Lists where no subcommand is named."""

    unnamed = plugin_listing.command
    """What is meant then."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # The completion of a shell wants to know of the others.
        if not ctx.resilient_parsing and (not args or (args[0].startswith("-") and args[0] not in _HELP)):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("plugins", cls=_Group)
def command() -> None:
    """List the plugins, show all of one, switch them on and off, install them, or look for what is wrong."""


for _each in (
    plugin_listing.command,
    plugin_showing.command,
    plugin_switching.enable,
    plugin_switching.disable,
    plugin_installing.install,
    plugin_installing.uninstall,
    doctoring.command,
):
    command.add_command(_each)
