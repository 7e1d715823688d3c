"""The layout of a dialog: a server's text has a margin, mcptrio's text has none, and commands begin with a colon.

The dialogs of forms and URLs use it. A server's text is wrapped and escaped here, so it can neither control the
terminal nor look like mcptrio's own text.

Source: MCP 2026-07-28, client/elicitation, "User Interaction Model".
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import TextWrapper

from attrs import frozen

from mcptrio.ground.quoting import printable, quote_name
from mcptrio.protocol.model.elicitation import ElicitResult

__all__ = [
    "COMMANDS",
    "WIDTH",
    "Reply",
    "explain",
    "list_commands",
    "read_command",
    "refuse_command",
    "wrap",
    "wrap_quoted",
]

WIDTH = 78
"""Columns of the text, by default."""
COMMANDS: Mapping[str, str] = {
    "back": "go to the previous question",
    "skip": "leave out an optional answer, even if it has a default",
    "help": "show these commands, and the question again",
    "decline": "answer the server that you refuse",
    "cancel": "leave without an answer",
}
"""The commands, with their effects."""

_MARGIN = "  | "
# TextWrapper raises ValueError for a width of 0.
_MIN_WIDTH = 20


@frozen(kw_only=True)
class Reply:
    """The dialog's reaction to a line."""

    text: str
    """The text to show; whole lines."""
    prompt: str = ""
    """The prompt of the next line."""
    result: ElicitResult | None = None
    """The answer for the server, which ends the dialog. ``None``: the dialog continues."""


def read_command(line: str) -> str | None:
    """Return the command in a line, in lower case; ``None`` without one. Commands begin with a single colon."""
    line = line.strip()
    # A text that begins with a colon is entered with two.
    return line[1:].strip().casefold() if line.startswith(":") and not line.startswith("::") else None


def refuse_command(command: str, known: Mapping[str, str]) -> str:
    """Return the error about an unknown command."""
    return f"There is no command {quote_name(f':{command}')}; there are {list_commands(known)}."


def list_commands(known: Mapping[str, str]) -> str:
    return ", ".join(f":{name}" for name in known)


def explain(known: Mapping[str, str]) -> list[str]:
    return [f"  :{name:8} {meaning}" for name, meaning in known.items()]


def wrap(text: str, width: int, *, indent: str = "") -> list[str]:
    """Return a text as lines. Lines after the first are indented by two more columns."""
    return _lines(text, width, indent, f"{indent}  ")


def wrap_quoted(text: str, width: int) -> list[str]:
    """Return a server's text as lines, each with a margin."""
    return [line for part in text.splitlines() for line in _lines(part, width, _MARGIN, _MARGIN)]


def _lines(text: str, width: int, first: str, following: str) -> list[str]:
    wrapper = TextWrapper(
        width=max(width, _MIN_WIDTH), initial_indent=first, subsequent_indent=following, break_on_hyphens=False
    )
    # TextWrapper returns no line for an empty text; the margin of an empty line must still appear.
    return wrapper.wrap(printable(text)) or [first.rstrip()]
