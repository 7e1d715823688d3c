"""Asks a server's question on a terminal.

The caller passes functions that read a line and write text. The end of input counts as cancel, so there is always an
answer.

Source: MCP 2026-07-28, client/elicitation, "Response Actions".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcptrio.cli.terminal.dialog_text import WIDTH
from mcptrio.cli.terminal.form_dialog import FormDialog
from mcptrio.cli.terminal.url_dialog import URLDialog, in_brackets
from mcptrio.client.forms import Form, OpenURL
from mcptrio.protocol.model.elicitation import ElicitResult

__all__ = ["ask"]


async def ask(
    question: Form | OpenURL,
    *,
    read_line: Callable[[str, Callable[[str], str | None] | None], Awaitable[str]],
    write: Callable[[str], None],
    width: int = WIDTH,
    emphasise: Callable[[str], str] = in_brackets,
) -> ElicitResult:
    """Ask until there is an answer. The caller sets the deadline, and opens an accepted page.

    Args:
        read_line: shows a prompt and gives the line that was entered, with or without its end. Its second argument
            returns the complaint about a text so far, to be shown while the user types; ``None`` for a page. An
            EOFError from it is a cancel; any other exception passes through.
        write: shows text, whole lines.
        width: columns to wrap the text at.
        emphasise: makes the host of a page stand out, e.g. bold.

    Returns:
        The answer: accepted only when the user has said so after seeing all of it, and checked.
    """
    dialog: FormDialog | URLDialog
    if isinstance(question, Form):
        dialog = FormDialog(question, width=width)
    else:
        dialog = URLDialog(question, width=width, emphasise=emphasise)
    complaint = dialog.complaint if isinstance(dialog, FormDialog) else None
    reply = dialog.begin()
    while reply.result is None:
        write(reply.text)
        try:
            line = await read_line(reply.prompt, complaint)
        except EOFError:
            return question.cancel()
        reply = dialog.feed(line)
    write(reply.text)
    return reply.result
