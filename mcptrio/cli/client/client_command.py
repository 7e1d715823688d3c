"""A click command that uses one server: TARGET, the options for connecting, and a function.

Each client command of this package has one as ``command``; the shell runs the same functions without TARGET. The
function takes a :class:`~mcptrio.cli.client.command_context.CommandContext` and its own parameters, and does not depend
on the connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import click

from mcptrio.cli.client.client_settings import VARIABLES, client_settings
from mcptrio.cli.client.exit_codes import EXIT_CODES
from mcptrio.cli.client.running import Action, run_action
from mcptrio.cli.client.targets import FILES, TargetOptions
from mcptrio.cli.help_pages import CLICommand, Rows, split_at_dashes
from mcptrio.cli.param_types import SECONDS, OneOf
from mcptrio.cli.server.config_options import RECORD
from mcptrio.cli.server.plugin_server import plugin_names
from mcptrio.cli.terminal.json_output import JSON_HELP, JSON_NAMES
from mcptrio.protocol.revisions.registry import REVISIONS

__all__ = ["ClientCommand", "RecordingCommand", "common_options"]

_COMMAND = "mcptrio.cli.command"
"""The key in click's context of the words after ``--``."""
_TARGET = (
    "TARGET",
    "A URL, a command in quotes, FILE.json#NAME, or the name of a server in"
    f" {', '.join(FILES[:-1])} or {FILES[-1]}. Leave it out with --plugin, or with a command after -- at the end.",
)
"""The row of the help for the server."""
_MISSING = {
    "target": "pass a URL, a command, the name of a server in mcp.json, or --plugin FILE.py",
    "tool": "pass the name of a tool; `{prefix}list` shows them",
    "uri": "pass the URI of a resource; `{prefix}list` shows them",
    "name": "pass the name of a prompt, or for `complete` also a URI template; `{prefix}list` shows them",
}
"""What to pass for an argument that is missing. ``{prefix}`` stands for the words before the name of a command."""


class ClientCommand(CLICommand):
    """A command that connects to a server: ``@click.command(name, cls=ClientCommand)`` on an async function."""

    arguments: Rows = (_TARGET,)
    sections = MappingProxyType(
        {
            "Connection": ("plugins", "headers", "env", "revision", "timeout"),
            "General": ("as_json", "verbose"),
        }
    )
    environment = VARIABLES
    exit_codes = EXIT_CODES
    records: ClassVar[bool] = False
    """True if the command has the option ``--record``."""

    def __init__(self, name: str | None, *, params: list[click.Parameter] | None = None, **options: Any) -> None:
        self.own_params = list(params or ())
        """The parameters without TARGET and the options for connecting."""
        target = click.Argument(["target"], metavar="TARGET")
        more = [click.Option(["--record"], **RECORD)] if self.records else []
        super().__init__(name, params=[target, *self.own_params, *common_options(), *more], **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the words after ``--``; then, and with ``--plugin``, TARGET is not expected."""
        args, server_command = split_at_dashes(args)
        if server_command is not None:
            if not server_command:
                raise click.UsageError("expected a command after --, got nothing", ctx)
            # get_params runs while click parses, and leaves TARGET out if this key is set.
            ctx.meta[_COMMAND] = server_command
        # Searched in the raw arguments: click must know whether to expect TARGET before it parses the options.
        elif any(arg == "--plugin" or arg.startswith("--plugin=") for arg in args):
            ctx.meta[_COMMAND] = ()
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            raise _explain_missing(error) from None
        except click.NoSuchOption as error:
            # click already suggests a similar option.
            if error.possibilities:
                raise
            more = f"`{ctx.command_path} --help` lists the variables of settings without an option"
            raise click.UsageError(f"{error.message} {more}.", ctx) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        return [param for param in params if param.name != "target"] if _COMMAND in ctx.meta else params

    def invoke(self, ctx: click.Context) -> Any:
        action_params = {param.name: ctx.params[param.name] for param in self.own_params if param.name in ctx.params}
        target_params = {name: value for name, value in ctx.params.items() if name not in action_params}
        options = TargetOptions(command=ctx.meta.get(_COMMAND, ()), settings=client_settings(), **target_params)
        ctx.exit(run_action(self.action(action_params), options))

    def action(self, params: dict[str, Any]) -> Action:
        assert self.callback is not None
        return partial(self.callback, **params)

    def parse_shell_words(self, words: Sequence[str]) -> dict[str, Any]:
        """Parse a line of the shell to the command's own parameters and ``as_json``.

        Raises:
            click.ClickException: The words are invalid.
            click.exceptions.Exit: Help was requested and has been shown.
        """
        # Another command with the same parameters but without TARGET: the shell is already connected.
        # Commands of the shell have no exit codes.
        inner = CLICommand(self.name, params=[*self.own_params, _json_option()], help=self.help, epilog="")
        inner.arguments = tuple(row for row in self.arguments if row != _TARGET)
        try:
            with inner.make_context(self.name, list(words)) as ctx:
                return dict(ctx.params)
        except click.MissingParameter as error:
            raise _explain_missing(error, prefix="") from None


class RecordingCommand(ClientCommand):
    """A client command with the option ``--record``."""

    sections = MappingProxyType({**ClientCommand.sections, "General": (*ClientCommand.sections["General"], "record")})
    records = True


def _explain_missing(error: click.MissingParameter, *, prefix: str = "mcptrio ") -> click.UsageError:
    """Return an error that says what to pass.

    Args:
        prefix: The words before the name of a command; none in the shell.
    """
    name = "" if error.param is None else str(error.param.name)
    if name not in _MISSING:
        return error
    return click.UsageError(f"missing {name.upper()}: {_MISSING[name].format(prefix=prefix)}", error.ctx)


def _json_option() -> click.Option:
    return click.Option([*JSON_NAMES], is_flag=True, help=JSON_HELP)


def common_options() -> list[click.Parameter]:
    """Return new options for each command: click stores state of the command in them."""
    return [
        click.Option(
            ["--plugin", "plugins"],
            multiple=True,
            metavar="NAME|FILE.py",
            shell_complete=plugin_names,
            help="Serve this installed plugin or file in this process, and use it; repeat for more.",
        ),
        click.Option(
            ["--header", "headers"],
            multiple=True,
            metavar="NAME=VALUE",
            help="Send this header to a URL. VALUE may be @FILE or '$VARIABLE' (quoted, so that the shell does not"
            " replace it), which keeps it out of process lists.",
        ),
        click.Option(
            ["--env"],
            multiple=True,
            metavar="NAME=VALUE",
            help="Set this variable for a command. VALUE may be @FILE or '$VARIABLE' (quoted), as in --header.",
        ),
        click.Option(
            ["--revision"],
            type=OneOf(REVISIONS),
            metavar="REVISION",
            help=f"Use this protocol revision, or fail: {', '.join(REVISIONS)}.",
        ),
        click.Option(
            ["--timeout"],
            type=SECONDS,
            metavar="SECONDS",
            help="Seconds to wait for the connection (default 30), and for an answer or the next progress report"
            " (default 60).",
        ),
        _json_option(),
        click.Option(
            ["--verbose"],
            is_flag=True,
            help="Show mcptrio's log, the server's standard error, and all frames of tracebacks.",
        ),
    ]
