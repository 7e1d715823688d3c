"""A URL to open, as a dialog of lines: the server, the URL, warnings; then yes or no.

:mod:`mcptrio.cli.terminal.prompting` runs it. It has no I/O and opens nothing. Consent needs a whole word, such as yes.

Source: MCP 2026-07-28, client/elicitation, "Safe URL Handling" (the full URL, its host, warnings, consent).
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio.cli.terminal.dialog_text import (
    COMMANDS,
    WIDTH,
    Reply,
    explain,
    read_command,
    refuse_command,
    wrap,
    wrap_quoted,
)
from mcptrio.client.forms import OpenURL
from mcptrio.ground.quoting import printable

__all__ = ["URLDialog", "in_brackets"]

_COMMANDS = {name: COMMANDS[name] for name in ("help", "decline", "cancel")}
# No "y": opening a URL takes a whole word, so that a habitual key does not open it.
_YES = frozenset({"yes", "open", "accept"})
_NO = frozenset({"no", "n"})


def in_brackets(text: str) -> str:
    return f"[ {text} ]"


class URLDialog:
    """Asks whether to open a URL.

    Args:
        width: Columns to wrap the text at; the URL is never broken.
        emphasise: Makes the host stand out, for example in bold.
    """

    def __init__(self, page: OpenURL, *, width: int = WIDTH, emphasise: Callable[[str], str] = in_brackets) -> None:
        self._page = page
        self._width = width
        self._emphasise = emphasise

    def begin(self) -> Reply:
        return self._ask(*self._question())

    def feed(self, line: str) -> Reply:
        """Take one line, with or without its end. Not called after a reply with a result."""
        if (command := read_command(line)) is not None:
            return self._run_command(command)
        word = line.strip().casefold()
        if word in _YES and self._page.is_openable:
            return Reply(text="Accepted.\n", result=self._page.accept())
        if word in _NO:
            return self._run_command("decline")
        if word in _COMMANDS:
            return self._run_command(word)
        if self._page.is_openable:
            return self._ask("Enter yes to open it, no to decline, or :cancel.")
        return self._ask("It may not be opened. Enter no to decline, or :cancel.")

    def _run_command(self, command: str) -> Reply:
        match command:
            case "decline":
                return Reply(text="Declined.\n", result=self._page.decline())
            case "cancel":
                return Reply(text="Cancelled.\n", result=self._page.cancel())
            case "help":
                return self._ask(*explain(_COMMANDS), *self._question())
            case _:
                return self._ask(*wrap(refuse_command(command, _COMMANDS), self._width))

    def _question(self) -> list[str]:
        page = self._page
        lines = [f"{printable(page.server)} asks you to open a page:", *wrap_quoted(page.message, self._width)]
        # The URL is never wrapped or shortened, so that the user can examine and copy all of it.
        lines.append(f"URL:  {printable(page.url).replace(' ', _SPACE)}")
        lines.append(f"Host: {self._emphasise(page.host) if page.host else 'none'}")
        for warning in page.warnings:
            lines += wrap(f"Warning: {warning}.", self._width)
        return lines

    def _ask(self, *lines: str) -> Reply:
        prompt = (
            "Open it in your browser? (yes/no) " if self._page.is_openable else "It will not be opened. (no/:cancel) "
        )
        return Reply(text="\n".join(lines) + "\n", prompt=prompt)


# A space is invalid in a URL, and would let the rest of the URL look like a sentence of mcptrio.
_SPACE = "\\x20"
