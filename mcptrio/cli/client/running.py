"""Runs a command that uses one server: connects, handles interrupts and returns the exit code.

:class:`mcptrio.cli.client.client_command.ClientCommand` calls it. Every failure is one line on standard error and an
exit code.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, contextmanager
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO, TypeAlias

import attrs
import click
import trio

from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.exit_codes import ExitCode, report, root_error
from mcptrio.cli.client.targets import FoundTarget, TargetOptions, find_target
from mcptrio.cli.client.url_hints import has_no_path, hint_of, usual_endpoint
from mcptrio.cli.server.log_output import log_warnings
from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.messages import ConsoleHandler
from mcptrio.cli.terminal.progress import progress_line
from mcptrio.cli.terminal.prompting import TerminalUser, handlers_for
from mcptrio.cli.terminal.terminal import Terminal, open_terminal
from mcptrio.client.client import Client
from mcptrio.client.handlers import Handlers
from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.connecting.connect import connect
from mcptrio.connecting.mcp_json import AskInput, Input
from mcptrio.connecting.targets import Command, Endpoint, Target
from mcptrio.errors import AuthorizationError, MCPTrioError, RequestFailed
from mcptrio.ground.quoting import printable
from mcptrio.protocol.model.logging import LoggingLevel

__all__ = ["Action", "Work", "run_action", "run_at_console", "run_connected"]

Action: TypeAlias = Callable[[CommandContext], Awaitable[int | None]]
"""A command's function. Returns the exit code if it is not 0."""
Work: TypeAlias = Callable[[Console, Terminal | None], Awaitable[int]]
"""A function that runs at a console and returns the exit code."""

_log = logging.getLogger("mcptrio.commands")

_OTHER_PATH_TIMEOUT = 3.0
"""Seconds for a response at the usual path, after the given path had no endpoint."""
_PROBE_TIMEOUT = 10.0
_MAX_CALL_SECONDS = 3600.0
"""Seconds for a call, however much progress it reports."""


def run_action(action: Action, options: TargetOptions) -> int:

    def start() -> Work:
        return partial(run_connected, action, options, find_target(options, ask=_input_prompt(options)))

    url = options.target or ""
    return run_at_console(start, redirects_output=bool(options.plugins), verbose=options.verbose, url=url)


def run_at_console(
    start: Callable[[], Work], *, redirects_output: bool = False, verbose: bool = False, url: str = ""
) -> int:
    """Run an async function that uses a terminal or a server, and return the exit code.

    Args:
        start: Makes it, before Trio runs.
        url: The URL of the server, for hints; empty if it has none.
        redirects_output: True if other output of this process, such as that of plugins, goes to standard error.
        verbose: True to show mcptrio's log.
    """
    with _streams(redirects_output=redirects_output) as (out, err):
        console = Console(out, err)
        logging.getLogger().addHandler(ConsoleHandler(console, verbose=verbose))
        logging.getLogger().setLevel(logging.DEBUG if verbose else logging.WARNING)
        log_warnings()
        try:
            return _run(start, console, url)
        except BrokenPipeError:
            # The reader has closed the pipe. Discard buffered output, or the interpreter would complain at exit.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, out.fileno())
            os.close(null)
            return ExitCode.DONE


def _run(start: Callable[[], Work], console: Console, url: str) -> int:
    try:
        # start() runs before Trio: it may ask for inputs with click.prompt, which blocks.
        return trio.run(_with_terminal, start(), console)
    except (MCPTrioError, OSError, BaseExceptionGroup) as error:
        failure = root_error(error)
        # The reader, such as `head`, has seen enough. run_at_console ends the command without an error.
        if isinstance(failure, BrokenPipeError):
            raise failure from None
        # A bug keeps its traceback.
        if not isinstance(failure, (MCPTrioError, OSError)):
            raise
        _log.debug("traceback of the error:", exc_info=error)
        hint = hint_of(failure, url)
        # Only after the failure, so that a working connection costs no probe.
        usual_url = usual_endpoint(failure, url)
        if usual_url and not has_no_path(url) and trio.run(_is_mcp_server, usual_url):
            hint = f"the server answers at {usual_url}"
        return report(console, failure, hint)
    except (KeyboardInterrupt, click.Abort):  # raised before the handler was installed
        return ExitCode.INTERRUPTED


async def _is_mcp_server(url: str) -> bool:
    """Return whether an MCP server answers at a URL, if only with 401 or 403. No credentials are sent."""
    try:
        with trio.move_on_after(_OTHER_PATH_TIMEOUT):
            async with connect(url):
                return True
    except (MCPTrioError, OSError) as error:
        return isinstance(error, RequestFailed | AuthorizationError) and error.status in (401, 403)
    return False


def _input_prompt(options: TargetOptions) -> AskInput | None:
    """Return a function that asks for the inputs of a server file, before anything is started."""

    def ask(input: Input) -> str | None:
        text = printable(input.description or input.id)
        if input.options:
            text += f" ({', '.join(map(printable, input.options))})"
        if input.default is not None and not input.is_secret:
            text += f" [{printable(input.default)}]"
        answer: str = click.prompt(
            text, default=input.default, show_default=False, hide_input=input.is_secret, type=str, err=True
        )
        return answer

    has_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()
    return ask if has_terminal and options.settings.input else None


async def _with_terminal(work: Work, console: Console) -> int:
    interrupts = console.interrupts
    with interrupts.listening(), trio.CancelScope() as scope, interrupts.cancelling(scope):
        async with open_terminal(console) as terminal:
            return await work(console, terminal)
    number = interrupts.number or signal.SIGINT
    console.print_error("interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}")
    # As shells report a process that a signal has ended.
    return 128 + number


async def run_connected(
    action: Action,
    options: TargetOptions,
    server: FoundTarget,
    console: Console,
    terminal: Terminal | None,
    *,
    handlers: Handlers | None = None,
) -> int:
    """Connect to one server, run the function of a command, and return the exit code.

    Args:
        handlers: Answer the server's questions; by default the user does.
    """
    if server.note is not None:
        console.note(server.note, "dim")
    settings = options.settings
    log_level: LoggingLevel | None = None if settings.log_level == "off" else settings.log_level
    # Without a TerminalUser the client declares no capability for questions, so the server asks none.
    user = TerminalUser(console, terminal) if terminal is not None and settings.input else None
    handlers = handlers or handlers_for(console, user, roots=settings.roots or None, shows_log=log_level is not None)
    connecting = partial(
        connect,
        handlers=handlers,
        timeouts=_timeouts(options.timeout),
        revision=options.revision,
        log_level=log_level,
    )
    async with AsyncExitStack() as stack:
        with progress_line(console, f"connecting to {server.name}"):
            # MCPTRIO_CLIENT_INPUT=false also prevents the question whether to log in.
            authorize = partial(_authorize, server.name, console, terminal if user is not None else None)
            target, client = await _open(stack, connecting, authorize, server.target, options.record)
        cmd = CommandContext(
            client=client,
            options=options,
            server=server.name,
            hint_at_login=partial(_hint_at_login, target),
            console=console,
            terminal=terminal,
            is_interactive=user is not None,
            has_started_server=isinstance(target, Command),
            as_json=options.as_json,
            verbose=options.verbose,
        )
        return await action(cmd) or ExitCode.DONE


async def _open(
    stack: AsyncExitStack,
    connecting: Callable[..., AbstractAsyncContextManager[Client]],
    authorize: Callable[[Target], Awaitable[Target]],
    target: Target,
    record: Path | None,
) -> tuple[Target, Client]:
    """Connect until the stack is closed. The endpoint of a URL without a path is at / or at the usual path."""
    authorized_target = await authorize(target)
    if isinstance(target, Endpoint) and has_no_path(target.url):
        try:
            # Recording an attempt that fails would replace an older recording.
            if record is None:
                return authorized_target, await stack.enter_async_context(connecting(authorized_target))
            async with connecting(authorized_target):
                pass
        except RequestFailed as error:
            if not (usual_url := usual_endpoint(error, target.url)):
                raise
            authorized_target = await authorize(attrs.evolve(target, url=usual_url))
    return authorized_target, await stack.enter_async_context(connecting(authorized_target, record=record))


async def _authorize(server: str, console: Console, terminal: Terminal | None, target: Target) -> Target:
    """Return the target; a URL gets its stored credentials, or an offer to log in."""
    if not isinstance(target, Endpoint):
        return target
    from mcptrio.cli.client.credentials import with_credentials
    from mcptrio.cli.client.signing_in import sign_in

    redirects = None if terminal is None else sign_in(console, terminal, server=server)
    return await with_credentials(target, redirects)


async def _hint_at_login(target: Target) -> str:
    if not isinstance(target, Endpoint):
        return ""
    from mcptrio.cli.client.credentials import hint_at_login

    return await hint_at_login(target)


def _timeouts(seconds: float | None) -> ClientTimeouts:
    if seconds is None:
        return ClientTimeouts()
    return ClientTimeouts(
        connect=seconds,
        # An older server may not answer the first request of the negotiation. Half of the time is left for the next.
        probe=min(_PROBE_TIMEOUT, seconds / 2),
        idle=seconds,
        # The default must not shorten a longer --timeout.
        request=max(_MAX_CALL_SECONDS, seconds),
    )


@contextmanager
def _streams(*, redirects_output: bool) -> Iterator[tuple[TextIOWrapper, TextIO]]:
    """Open standard output and standard error for any text; characters that cannot be encoded are escaped.

    Args:
        redirects_output: True if other output of this process, such as that of plugins, goes to standard error.
    """
    with ExitStack() as stack:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        if sys.stdout is None:
            out_fd = os.open(os.devnull, os.O_WRONLY)
        else:
            sys.stdout.flush()
            # Duplicated, because descriptor 1 may be redirected below, and the command's output must still reach the
            # original.
            out_fd = os.dup(sys.stdout.fileno())
        # A server's text must not end the command on a terminal with another encoding than UTF-8.
        out = stack.enter_context(open(out_fd, "w", encoding=encoding, errors="backslashreplace"))
        err = sys.stderr if sys.stderr is not None else stack.enter_context(open(os.devnull, "w"))
        if redirects_output and sys.stdout is not None and sys.stderr is not None:
            # A plugin that prints would otherwise write into the command's own output.
            os.dup2(2, 1)
        yield out, err
