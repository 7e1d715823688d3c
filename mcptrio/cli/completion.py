"""``mcptrio completion``: prints the script with which a shell completes commands, options and plugin names.

The script is click's. It asks mcptrio itself, so it stays valid after an upgrade.
"""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.param_types import OneOf

__all__ = ["command"]

_PROGRAM = "mcptrio"
_VARIABLE = "_MCPTRIO_COMPLETE"
"""The name that click derives from the program's name."""


@click.command("completion", cls=CLICommand)
@click.argument("shell", type=OneOf(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script with which a shell completes commands, options and plugin names.

    \b
    mcptrio completion bash > ~/.local/share/bash-completion/completions/mcptrio
    mcptrio completion zsh > ~/.zfunc/_mcptrio
    mcptrio completion fish > ~/.config/fish/completions/mcptrio.fish

    For zsh, ~/.zshrc needs the line fpath+=~/.zfunc before compinit.
    """
    complete_class = get_completion_class(shell)
    assert complete_class is not None
    completion = complete_class(ctx.find_root().command, {}, _PROGRAM, _VARIABLE)
    # BashComplete.source would first run bash on this machine, to check its version.
    click.echo(ShellComplete.source(completion))
