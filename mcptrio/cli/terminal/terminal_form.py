"""A server's question asked on a terminal.

For a command line, which brings the terminal: how a line is read, and how text is written. The one rule: whatever the
terminal does, there is an answer: the end of input is a cancel.

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
    read_line: Callable[[str], Awaitable[str]],
    read_checked: Callable[[str, Callable[[str], str | None]], Awaitable[str]] | None = None,
    write: Callable[[str], None],
    width: int = WIDTH,
    emphasise: Callable[[str], str] = in_brackets,
) -> ElicitResult:
    """Ask until there is an answer. The caller sets the deadline, and opens an accepted page.

    Args:
        read_line: shows a prompt and gives the line that was entered, with or without its end. An EOFError from it is
            a cancel; any other exception passes through.
        read_checked: the same for the lines of a form, with a function that gives what would be said against a text so
            far; for a reader that shows it while one types. By default ``read_line``.
        write: shows text, whole lines.
        width: columns to wrap the text at.
        emphasise: makes the host of a page stand out, e.g. bold.

    Returns:
        The answer: accepted only when the user has said so after seeing all of it, and checked.
    """
    if isinstance(question, Form):
        dialog: FormDialog | URLDialog = FormDialog(question, width=width)
    else:
        dialog = URLDialog(question, width=width, emphasise=emphasise)
    reply = dialog.begin()
    while reply.result is None:
        write(reply.text)
        try:
            if read_checked is not None and isinstance(dialog, FormDialog):
                line = await read_checked(reply.prompt, dialog.complaint)
            else:
                line = await read_line(reply.prompt)
        except EOFError:
            return question.cancel()
        reply = dialog.feed(line)
    write(reply.text)
    return reply.result
