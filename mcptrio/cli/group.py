"""The command line ``mcptrio``: its list of commands, and how errors end it.

A command is imported when it is run, so a server starts without the client, and the list of commands is shown without
importing any.
"""

from __future__ import annotations

import errno
import gc
import os
import shlex
import sys
from collections import UserDict
from collections.abc import Mapping, Sequence
from importlib import import_module
from textwrap import indent
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from mcptrio.cli.help_pages import CLIGroup, Rows, print_click_error, print_error
from mcptrio.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["COMMANDS", "SECTIONS", "cli", "end", "main"]

# Repeated here, so that listing the commands imports none of them; a test compares the texts.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "serve": "Serve plugins over any transport.",
        "run": "Serve plugin files over stdio or HTTP: serve with fewer options.",
        "worker": "Run tasks from a store, without serving clients.",
        "ps": "List your servers on this machine.",
        "top": "Show what servers on this machine do, request by request.",
        "plugins": "List, show, enable, disable, add, install and check plugins.",
        "lock": "Write or check mcptrio.lock, the fingerprints of all tools, prompts and resource templates.",
        "dev": "Serve plugins during development: changes are reloaded, and clients stay connected.",
        "store": "Check the store that replicas share, bring its tables up to date, or count its tasks.",
        "token": "Create, list and revoke access tokens, for a team without an identity provider.",
        "new": "Create a plugin package with an example and tests.",
        "host": "Add mcptrio to the configuration of Claude, Cursor, VS Code and other applications, or remove it.",
        "package": "Describe plugins for the MCP registry, or build an MCPB bundle.",
        "list": "List a server's tools, resources, templates and prompts.",
        "call": "Call a tool.",
        "tasks": "List the detached tasks with their present state.",
        "task": "Show the state of a task, wait for its result, or cancel it.",
        "read": "Read a resource.",
        "prompt": "Get a prompt.",
        "complete": "Show completions for an argument of a prompt or a resource template.",
        "watch": "Print a line when a list or a named resource changes.",
        "ping": "Check whether a server answers.",
        "inspect": "Describe a server: its tools, resources and prompts, their size in tokens, and problems found.",
        "auth": "Log in to servers, show your logins, and log out.",
        "shell": "Use a server interactively, with completion.",
        "show": "Show the messages of a recording.",
        "replay": "Answer as a recorded server did, or repeat the requests of a recorded client.",
        "completion": "Print a script with which a shell completes commands, options and plugin names.",
    }
)
"""The first line of the help of each command. The module of its name has it as ``command``."""

SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Serve plugins": ("serve", "run", "worker", "dev", "store"),
        "Watch servers": ("ps", "top"),
        "Use a server": ("list", "call", "read", "prompt", "complete", "watch", "ping", "inspect", "shell"),
        "Use tasks": ("tasks", "task"),
        "Use recordings": ("show", "replay"),
        "Manage plugins": ("plugins", "lock", "new", "package"),
        "Control access": ("auth", "token"),
        "Set up this machine": ("host", "completion"),
    }
)
"""The commands in the sections of the help."""

# Here, and not in the module of the client settings, for the same reason.
VARIABLES: Rows = (
    ("MCPTRIO_CLIENT_CREDENTIALS", "Where `mcptrio auth` keeps credentials: keyring, or the path of a file."),
    ("MCPTRIO_CLIENT_INHERIT_ENV", "true: pass the whole environment to a command, including secrets."),
    ("MCPTRIO_CLIENT_INPUT", "false: refuse the server's questions, even at a terminal."),
    ("MCPTRIO_CLIENT_LOG_LEVEL", "Show log messages of the server of this level and above, or off.  [default: info]"),
    ("MCPTRIO_CLIENT_ROOTS", f"Folders that the server may work in, separated by {os.pathsep!r} as in PATH."),
    ("MCPTRIO_CLIENT_TLS_CA", "Trust the authorities in this file, instead of those of the system."),
    ("MCPTRIO_CLIENT_TLS_CERT", "Send the certificate in this file to a server that requests one."),
    ("MCPTRIO_CLIENT_TLS_KEY", "The key of that certificate, if it is not in the same file."),
    ("MCPTRIO_CLIENT_TRANSPORT", "The transport for a URL: http, sse or auto.  [default: auto]"),
)
"""The variables of the commands that use a server, for the help."""

# 128 + SIGINT, as shells report it.
_INTERRUPTED = 130


class _Commands(UserDict[str, Any]):
    """The commands by name, each imported at its first use."""

    def __getitem__(self, name: str) -> click.Command:
        if self.data[name] is None:
            self.data[name] = import_module(f"mcptrio.cli.{name}").command
        command: click.Command = self.data[name]
        return command


class _Group(CLIGroup):
    """Lists the commands in their sections, without importing any."""

    environment = VARIABLES

    def command_rows(self, ctx: click.Context) -> Mapping[str, Rows]:
        return {title: [(name, COMMANDS[name]) for name in names] for title, names in SECTIONS.items()}

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # Without the commands themselves, each of which would be imported for its help.
        items = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            word = shlex.quote(args[0])
            if word.endswith(".py"):
                raise click.UsageError(
                    f"no command {word}: to serve a plugin, run `mcptrio serve --http --plugin {word}`", ctx
                ) from None
            raise


@click.group(
    cls=_Group,
    commands=_Commands(dict.fromkeys(COMMANDS)),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="mcptrio", prog_name="mcptrio")
def cli() -> None:
    """Serve MCP tools that are written in Python, and use the tools of any MCP server.

    \b
    mcptrio serve --http --plugin hello.py
    mcptrio list http://127.0.0.1:8000/mcp
    mcptrio call --plugin hello.py add a=2 b=3

    Settings without an option are in mcptrio.toml or the environment: MCPTRIO_HTTP_PORT sets port in [http].
    """
    if not gc.isenabled():
        # The command is imported by now. Without freeze, the first collection would examine all that was imported.
        gc.freeze()
        gc.enable()


def main() -> None:
    end(cli, "mcptrio")


def end(command: click.Command, name: str, args: Sequence[str] | None = None, obj: object = None) -> NoReturn:
    """Run a command, and exit with its exit code.

    Args:
        args: The arguments of the command; by default, those of the command line.
    """
    try:
        sys.exit(command.main(args, name, obj=obj, standalone_mode=False))
    except click.ClickException as error:
        print_click_error(error)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(_INTERRUPTED)
    except (ConfigError, PluginError, OSError, BaseExceptionGroup) as error:
        from mcptrio.ground.nurseries import first_exception
        from mcptrio.ground.printable import printable
        from mcptrio.ground.tracebacks import details_of

        # A nursery of Trio groups even a single exception.
        failure = first_exception(error)
        # Other exceptions are bugs, which need a traceback.
        if not isinstance(failure, (ConfigError, PluginError, OSError)):
            raise
        print_error("mcptrio: ", f"{failure}{_address_hint(str(failure))}")
        if isinstance(failure, PluginError) and (details := details_of(failure)):
            click.echo(indent("\n".join(map(printable, details.split("\n"))), "  "), err=True)
        sys.exit(1 if isinstance(failure, OSError) else 2)


def _address_hint(failure: str) -> str:
    """Return what to do about an address that cannot be bound."""
    if "--http" in sys.argv and os.strerror(errno.EADDRINUSE) in failure:
        return "; pass another --port, or --port 0 for a free one"
    if failure.startswith("cannot listen on") and os.strerror(errno.EADDRNOTAVAIL) in failure:
        return "; expected an address of this machine: 127.0.0.1 for local clients, 0.0.0.0 for all interfaces"
    return ""
