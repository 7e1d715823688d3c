"""``mcptrio new``: writes a new plugin package that works at once.

Exit codes: 0 done, 1 failed, 2 wrong use or configuration.
"""

from __future__ import annotations

from pathlib import Path

import click

from mcptrio.cli.group import COMMANDS
from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.new.scaffold import SHIPPED, NewPlugin, write_plugin
from mcptrio.errors import ConfigError
from mcptrio.plugins.discovery import distribution_of, offered

__all__ = ["command"]


@click.command("new", cls=CLICommand)
@click.argument("name")
@click.option(
    "--path",
    "folder",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Create the folder mcptrio-NAME in this folder.  [default: the current one]",
)
@click.option("--author", metavar="NAME|NAME <EMAIL>", help="The author; adds an MIT license.")
@click.option("--description", help="The purpose, on one line.")
def command(name: str, folder: Path, author: str | None, description: str | None) -> None:
    """Create a plugin package that works, with tests."""
    new = NewPlugin(name=name, author=author, description=description)
    _check_free(name)
    written = write_plugin(new, folder)
    place = written[0].parent
    click.echo(f"wrote {place}: {len(written)} files")
    click.echo(f'next: cd {place} && pip install -e ".[test]" && pytest')


def _check_free(name: str) -> None:
    # Plugins with the same name end up in quarantine.
    if name in SHIPPED:
        raise ConfigError(f"{name} is a plugin that comes with mcptrio; choose another name")
    # Settings of the plugin and of the command would be read from variables with the same beginning.
    if name in COMMANDS:
        raise ConfigError(f"{name} is a command of mcptrio, whose variables begin like a plugin's; choose another name")
    installed = offered()
    if name in installed:
        distribution, _ = distribution_of(installed[name][0])
        raise ConfigError(f"a plugin {name} is installed already, by {distribution or 'a file'}; choose another name")
