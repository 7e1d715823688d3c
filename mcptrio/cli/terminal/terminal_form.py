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
    """Ask until the user has answered. The caller sets the deadline, and opens an accepted URL.

    Args:
        read_line: Shows a prompt and returns the entered line, with or without its end. Its second argument returns the
            error in the text typed so far, to be shown while the user types; it is ``None`` for a URL. An EOFError
            cancels; any other exception passes through.
        write: Shows whole lines.
        width: Columns to wrap the text at.
        emphasise: Makes the host of a URL stand out, for example in bold.

    Returns:
        The answer, checked. It is accepted only after the user has seen and confirmed all of it.
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
