"""``mcptrio plugins``: lists, checks and installs plugins.

Without a subcommand it lists, with the options of ``list``.
"""

from __future__ import annotations

import click

from mcptrio.cli.help_pages import CLIGroup
from mcptrio.cli.plugins.add import add as add_command
from mcptrio.cli.plugins.doctor import command as doctor_command
from mcptrio.cli.plugins.install import install as install_command
from mcptrio.cli.plugins.install import uninstall as uninstall_command
from mcptrio.cli.plugins.list import command as list_command
from mcptrio.cli.plugins.show import command as show_command
from mcptrio.cli.plugins.switch import disable as disable_command
from mcptrio.cli.plugins.switch import enable as enable_command

__all__ = ["command"]

_HELP = ("-h", "--help")


class _Group(CLIGroup):
    """Lists the plugins if no subcommand is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Completion in a shell needs the other subcommands.
        if not ctx.resilient_parsing and (not args or (args[0].startswith("-") and args[0] not in _HELP)):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("plugins", cls=_Group)
def command() -> None:
    """List, show, enable, disable, add, install and check plugins.

    Without a command, `mcptrio plugins` does the same as `mcptrio plugins list`.
    """


for _each in (
    list_command,
    show_command,
    enable_command,
    disable_command,
    add_command,
    install_command,
    uninstall_command,
    doctor_command,
):
    command.add_command(_each)
