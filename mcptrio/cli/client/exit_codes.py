"""The exit codes of client commands, and their error lines.

:mod:`mcptrio.cli.client.running` and the shell use them. The code alone shows the cause: the tool, the user, the server
or the connection.
"""

from __future__ import annotations

from enum import IntEnum
from textwrap import indent

from mcptrio.cli.terminal.console import Console
from mcptrio.errors import (
    AuthorizationError,
    ConfigError,
    ConnectionClosed,
    MCPError,
    MCPTrioError,
    MissingClientCapability,
    PluginError,
    RequestFailed,
    RequestTimeout,
)
from mcptrio.ground.quoting import printable
from mcptrio.ground.stderr_tail import STDERR_MARK, split_stderr
from mcptrio.ground.tracebacks import details_of

__all__ = ["EXIT_CODES", "ExitCode", "code_of", "line_of", "report", "root_error"]

_MAX_ERROR_CHARS = 2_000
"""Maximum number of characters of an error that are shown."""
_NEEDS_TERMINAL = "the server asks a question, which needs a terminal: run the command without a pipe"
_MAX_STDERR_LINES = 10
"""Last lines of a server's standard error that are shown on a terminal."""


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    """The tool reported an error, or a check failed."""
    USAGE = 2
    PROTOCOL = 3
    CONNECTION = 4
    TIMEOUT = 5
    # As shells report a process that SIGINT has ended: 128 + 2.
    INTERRUPTED = 130


EXIT_CODES = (
    "Exit codes: 0 done; 1 the tool reported an error, or a check failed; 2 invalid usage or configuration; 3 the"
    " server refused, or broke the protocol; 4 no connection, or it was lost; 5 no answer in time; 130 interrupted."
)
"""For the help of each command."""


def root_error(error: BaseException) -> BaseException:
    """Return the single error in nested groups; otherwise the first one that a server or a user may have caused."""
    # A nursery raises a group even for a single error.
    while isinstance(error, BaseExceptionGroup):
        known = error.subgroup((MCPTrioError, OSError))
        error = (known or error).exceptions[0]
    return error


def code_of(error: MCPTrioError | OSError) -> int:
    if isinstance(error, ConfigError | PluginError):
        return ExitCode.USAGE
    if isinstance(error, RequestTimeout):
        return ExitCode.TIMEOUT
    if isinstance(error, (ConnectionClosed, RequestFailed, AuthorizationError, OSError)):
        return ExitCode.CONNECTION
    return ExitCode.PROTOCOL


def line_of(error: MCPTrioError | OSError) -> str:
    """Return one printable line about an error."""
    text = str(error) or type(error).__name__
    # The command declares elicitation only if a user can answer.
    if isinstance(error, MissingClientCapability) and "elicitation" in error.required:
        text = f"{_NEEDS_TERMINAL} ({text}, {error.code:d})"
    elif isinstance(error, MCPError):
        text = f"the server refused: {text} ({error.code:d})"
    # One line: a server's error may contain line breaks, which could imitate messages of ours.
    text = " ".join(text.split())
    return printable(text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}…")


def report(console: Console, error: MCPTrioError | OSError, hint: str = "") -> int:
    """Show why a command ends, with the traceback of a plugin that failed, and return the exit code.

    A failure of a plugin in this process is not repeated if its log record was already shown.
    """
    line = line_of(error)
    stderr_lines: list[str] = []
    # At a terminal the lines of standard error are shown one below the other; in a pipe one line is easier to read.
    if console.is_err_terminal:
        line, stderr_lines = split_stderr(line)
    if hint:
        line += f"; {printable(hint)}"
    if not (isinstance(error, MCPError) and console.has_shown(line)):
        console.print_error(line + (STDERR_MARK.rstrip() if stderr_lines else ""))
    for each in stderr_lines[-_MAX_STDERR_LINES:]:
        console.note(f"  {each}")
    if isinstance(error, PluginError) and (details := details_of(error)):
        console.note(indent(details, "  "))
    return code_of(error)
