"""``--json``: one object on standard output, described in docs/commands.md.

The commands that talk to a server print theirs through :class:`mcptrio.cli.terminal.console.Console`, in the same form.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from mcptrio.ground.printable import printable

__all__ = ["JSON_HELP", "JSON_NAMES", "json_option", "json_text", "print_json"]

JSON_NAMES = ("--json", "as_json")
JSON_HELP = "Print one JSON object, on one line in a pipe."

json_option = click.option(*JSON_NAMES, is_flag=True, help=JSON_HELP)


def json_text(value: Mapping[str, Any], *, is_terminal: bool) -> str:
    """Return an object as several printable lines for a terminal, or as one unchanged line."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if is_terminal else None, default=str)
    # JSON escapes line ends in strings, but not bidirectional controls, which could reorder the line on the screen.
    return "\n".join(map(printable, text.split("\n"))) if is_terminal else text


def print_json(value: Mapping[str, Any]) -> None:
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    click.echo(json_text(value, is_terminal=is_terminal))
