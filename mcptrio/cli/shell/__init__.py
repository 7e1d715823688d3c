"""``mcptrio shell``: commands for one server, line by line, from a user or a file.

A terminal has completion, a history, and messages of the server above the current line. Other input has one command
per line, and is read up to the first that fails. A line does the same as the command of that name.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import attrs
import click
import trio

from mcptrio.cli import watch
from mcptrio.cli.call import command as call_command
from mcptrio.cli.client.client_command import ClientCommand, RecordingCommand
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.exit_codes import ExitCode, report, root_error
from mcptrio.cli.complete import command as complete_command
from mcptrio.cli.inspect import command as inspect_command
from mcptrio.cli.list import command as list_command
from mcptrio.cli.ping import command as ping_command
from mcptrio.cli.prompt import command as prompt_command
from mcptrio.cli.read import command as read_command
from mcptrio.cli.shell.completion import Completer
from mcptrio.cli.terminal.history import History, history_path
from mcptrio.cli.terminal.input_lines import InputLines, open_input
from mcptrio.cli.terminal.terminal import Interrupted, Terminal
from mcptrio.client.subscriptions import Changes
from mcptrio.errors import ConfigError, ConnectionClosed, MCPTrioError
from mcptrio.ground.quoting import quote, quote_name
from mcptrio.ground.suggestions import did_you_mean
from mcptrio.protocol.model.logging import LEVELS

__all__ = ["command"]

_COMMANDS: Mapping[str, click.Command] = MappingProxyType(
    {
        "list": list_command,
        "call": call_command,
        "read": read_command,
        "prompt": prompt_command,
        "complete": complete_command,
        "ping": ping_command,
        "inspect": inspect_command,
        "watch": watch.command,
    }
)
_SHELL_COMMANDS = {
    "unwatch": "End all subscriptions.",
    "log": "Show log messages of this level and above.",
    "help": "List these commands, or explain one.",
    "quit": "Leave the shell, like Ctrl-D.",
}
_MAX_SUBSCRIPTIONS = 32
"""Subscriptions of one shell."""


@click.command("shell", cls=RecordingCommand)
@click.option("--no-history", is_flag=True, help="Keep no history of this session.")
async def command(cmd: CommandContext, no_history: bool) -> int:
    """Use a server interactively, with completion.

    At a terminal, Tab completes with the server's suggestions, the arrow keys browse the history, and Ctrl-C cancels
    the running command or the line. Lines that begin with a space are not stored. If standard input is a file or a
    pipe, each line is one command, up to the first that fails; # begins a comment.
    """
    async with trio.open_nursery() as nursery:
        shell = ClientShell(cmd, nursery)
        if cmd.terminal is not None:
            shell.follow_lists()
            code = await shell.talk(cmd.terminal, History(None if no_history else history_path()))
        else:
            code = await shell.run_script()
        # Subscriptions run until they are cancelled.
        nursery.cancel_scope.cancel()
    return code


class ClientShell:
    """Runs the commands of ``mcptrio shell``.

    Args:
        nursery: The nursery for subscriptions.
    """

    def __init__(self, cmd: CommandContext, nursery: trio.Nursery) -> None:
        self._cmd = cmd
        self._nursery = nursery
        self._completer = Completer(cmd, [*_COMMANDS, *_SHELL_COMMANDS])
        self._watching: list[trio.CancelScope] = []
        self._has_ended = False

    def follow_lists(self) -> None:
        """Watch the lists whose changes the server reports, and show the user which list has changed."""
        # A change also drops the completer's copy of the list.
        if kinds := watch.watchable_lists(self._cmd):
            self._nursery.start_soon(self._follow, (), kinds)

    async def talk(self, terminal: Terminal, history: History) -> int:
        """Run the user's lines until the user leaves the shell, and return the exit code."""
        info = self._cmd.client.server_info
        console = self._cmd.console
        # quote() shortens the server's name and makes it printable; the slice removes the quotation marks.
        name = quote(info.title or info.name, most=30)[1:-1] if info is not None else "mcp"
        console.note(f"{name}, revision {self._cmd.client.revision}; type help for the commands", "dim")
        prompt = f"{console.paint(name, 'green')}> "
        while not self._has_ended:
            line = ""
            # A question of the server may interrupt the line. Ctrl-C in it must not end the shell.
            with trio.CancelScope() as scope, self._cmd.console.interrupts.cancelling(scope):
                try:
                    line = await terminal.read_line(
                        prompt,
                        history=history.lines,
                        complete=self._completer.complete,
                        hint=self._completer.hint,
                        yields=True,
                    )
                except Interrupted:
                    continue
                except EOFError:
                    break
            history.add(line)
            code = await self.run(line)
            # A lost connection ends the shell with its exit code. Any other failure concerns one line.
            if code == ExitCode.CONNECTION and self._has_ended:
                return code
        return ExitCode.DONE

    async def run_script(self) -> int:
        """Run the lines of standard input up to the first that fails, and return the exit code."""
        with open_input() as reader:
            lines = InputLines(reader)
            number = 0
            while not self._has_ended and (line := await lines.read()) is not None:
                number += 1
                code = await self.run(line)
                if code:
                    self._cmd.console.note(f"line {number} failed; the remaining lines were not run", "dim")
                    return code
        return ExitCode.DONE

    async def run(self, line: str) -> int:
        """Run one line, and return the exit code of its command."""
        # The code if Ctrl-C cancels the scope.
        code: int = ExitCode.INTERRUPTED
        with trio.CancelScope() as scope, self._cmd.console.interrupts.cancelling(scope):
            try:
                code = await self._run(line)
            # --help has printed its page.
            except click.exceptions.Exit:
                code = ExitCode.DONE
            except click.ClickException as error:
                self._cmd.console.print_error(error.format_message())
                code = ExitCode.USAGE
            except BaseExceptionGroup as group:
                # Trio needs Cancelled to reach the scope that was cancelled.
                if group.subgroup(trio.Cancelled) is not None:
                    raise
                code = self._report(group)
            except (MCPTrioError, OSError) as error:
                code = self._report(error)
        if scope.cancelled_caught:
            self._cmd.console.note("interrupted", "yellow")
        return code

    # Private

    async def _run(self, line: str) -> int:
        if not line.strip() or line.lstrip().startswith("#"):
            await trio.lowlevel.checkpoint()
            return ExitCode.DONE
        try:
            name, *words = shlex.split(line)
        except ValueError as error:
            raise ConfigError(f"expected words, got {quote(line)}: {error}") from error
        commands: dict[str, Callable[[Sequence[str]], Awaitable[None]]] = {
            "unwatch": self._unwatch,
            "log": self._log,
            "help": self._help,
            "?": self._help,
            "quit": self._quit,
            "exit": self._quit,
        }
        # At a terminal, `watch` runs in the background. In a script it is a command that has to end.
        if self._cmd.terminal is not None:
            commands["watch"] = self._watch
        if name in commands:
            await commands[name](words)
            return ExitCode.DONE
        shell_command = _COMMANDS.get(name)
        if not isinstance(shell_command, ClientCommand):
            raise _unknown_command(name)
        params = shell_command.parse_shell_words(words)
        as_json = params.pop("as_json") or self._cmd.as_json
        # Standard input contains the lines of the shell, so `call --args -` must not read it.
        return (
            await shell_command.action(params)(attrs.evolve(self._cmd, as_json=as_json, may_read_input=False))
            or ExitCode.DONE
        )

    def _report(self, error: BaseException) -> int:
        cause = root_error(error)
        # The program that reads the output has ended, so the whole command ends.
        if not isinstance(cause, (MCPTrioError, OSError)) or isinstance(cause, BrokenPipeError):
            raise error
        self._has_ended = isinstance(cause, ConnectionClosed)
        return report(self._cmd.console, cause)

    async def _quit(self, words: Sequence[str]) -> None:
        self._has_ended = True

    async def _help(self, words: Sequence[str]) -> None:
        console = self._cmd.console
        for name in words:
            if isinstance(shell_command := _COMMANDS.get(name), ClientCommand):
                shell_command.parse_shell_words(["--help"])
            elif name not in _SHELL_COMMANDS:
                raise _unknown_command(name)
            else:
                console.print(f"{name}: {_SHELL_COMMANDS[name]}")
        if not words:
            texts = {
                name: shell_command.get_short_help_str(100) for name, shell_command in _COMMANDS.items()
            } | _SHELL_COMMANDS
            for name, text in texts.items():
                console.print(f"{name:<10}{text}")

    async def _log(self, words: Sequence[str]) -> None:
        [level] = words if len(words) == 1 else [""]
        if level not in LEVELS:
            raise ConfigError(f"log: expected one of {', '.join(LEVELS)}, got {quote(' '.join(words))}")
        self._cmd.require("logging")
        await self._cmd.client.set_log_level(level)

    async def _unwatch(self, words: Sequence[str]) -> None:
        for scope in self._watching:
            scope.cancel()

    async def _watch(self, words: Sequence[str]) -> None:
        params = watch.command.parse_shell_words(words)
        # In 2026-07-28 each subscription keeps a stream open.
        if len(self._watching) >= _MAX_SUBSCRIPTIONS:
            raise ConfigError(f"watch: expected at most {_MAX_SUBSCRIPTIONS} subscriptions at once; unwatch ends them")
        if not params["words"]:
            raise ConfigError(
                "watch: expected a URI, tools, prompts or resources, got nothing; the lists are already watched"
            )
        uris, lists = watch.split_words(params["words"])
        # start() waits until the server has accepted or refused, so that an error appears below the line that caused
        # it.
        failure = await self._nursery.start(partial(self._follow, uris, lists, params["count"], is_requested=True))
        if failure is not None:
            raise failure

    async def _follow(
        self,
        uris: Sequence[str],
        lists: Sequence[str],
        count: int | None = None,
        *,
        is_requested: bool = False,
        task_status: trio.TaskStatus[MCPTrioError | None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Show changes until they end. An error before the server has accepted is reported to ``task_status``.

        Args:
            count: The number of changes after which the subscription ends.
        """
        is_started = False
        with trio.CancelScope() as scope:
            if is_requested:
                self._watching.append(scope)
            try:
                async with watch.subscribe(self._cmd, uris, lists) as changes:
                    is_started = True
                    task_status.started(None)
                    await self._show(changes, count, is_requested=is_requested)
            except MCPTrioError as error:
                if not is_started:
                    task_status.started(error)
            finally:
                if is_requested:
                    self._watching.remove(scope)

    async def _show(self, changes: Changes, count: int | None, *, is_requested: bool) -> None:
        number = 0
        async for change in changes:
            # A change to a resource leaves the lists valid.
            if change.kind != "resource":
                self._completer.forget(change.kind)
            if is_requested:
                watch.show_change(self._cmd, change)
            else:
                self._cmd.console.note(f"the list of {change.kind} has changed", "dim")
            number += 1
            if number == count:
                return


def _unknown_command(name: str) -> ConfigError:
    hint = did_you_mean(name, [*_COMMANDS, *_SHELL_COMMANDS])
    return ConfigError(
        f"there is no command {quote_name(name)}{hint or '; `call NAME` calls a tool, `help` lists the commands'}"
    )
