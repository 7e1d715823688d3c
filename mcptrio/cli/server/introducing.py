"""The text that a server on standard input and output shows at a terminal.

Called by ``serve --stdio`` and ``run``. The text goes to standard error, and only if standard input is a terminal: a
client that starts the command sees none of it.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

__all__ = ["introduce_stdio"]


def introduce_stdio(name: str | None) -> None:
    """Explain the command, how to connect a client, and how to serve HTTP.

    Args:
        name: The server's name; ``None`` if the configuration has none.
    """
    words = sys.argv[1:]
    # A program that calls mcptrio.run() is its own command.
    program = sys.argv[0] if sys.argv[0].endswith(".py") and Path(sys.argv[0]).name != "__main__.py" else None
    command = shlex.join(["python", program] if program is not None else ["mcptrio"])
    entry = {
        # A graphical client has another PATH than the shell, so the entry names the interpreter with its full path.
        "command": sys.executable,
        "args": [*([_absolute(program)] if program is not None else ["-m", "mcptrio"]), *map(_absolute, words)],
        # Other words of the command may be relative paths too.
        "cwd": os.getcwd(),
    }
    lines = [
        f"{_bold(name or 'mcptrio')}: an MCP server on standard input and output.",
        "A client starts this command and sends it JSON-RPC. At a terminal, it waits for input; Ctrl-C ends it.",
        "",
        _bold("Connect a client"),
        f'  entry in its configuration, under "mcpServers":  "{name or "mcptrio"}": {json.dumps(entry)}',
        "  or let mcptrio write it:  mcptrio host install --help",
        _bold("Try its tools"),
        f"  mcptrio list -- {command} {shlex.join(words)}".rstrip(),
        _bold("Serve HTTP instead"),
        f"  {command} {shlex.join(_replace_stdio(words))}",
    ]
    for line in lines:
        click.echo(line, err=True)


def _replace_stdio(words: Sequence[str]) -> list[str]:
    if "--stdio" in words:
        return ["--http" if word == "--stdio" else word for word in words]
    return [*words, "--http"]


def _absolute(word: str) -> str:
    """Return the absolute path of a plugin file, because a client starts servers in another folder."""
    path = Path(word)
    return str(path.absolute()) if word.endswith(".py") and path.is_file() else word


def _bold(text: str) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, bold=True)
