"""The dialogs with which a user answers a server's questions at the terminal: forms, URLs, sampling.

:mod:`mcptrio.cli.client.running` uses them if there is a terminal; otherwise the capabilities are not declared. One
question is shown at a time. Ctrl-C cancels the question and its call.

Source: MCP 2026-07-28, client/elicitation and client/sampling, "User Interaction Model".
"""

from __future__ import annotations

import webbrowser
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import trio

from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.dialog_text import WIDTH, wrap, wrap_quoted
from mcptrio.cli.terminal.form_dialog import FormDialog
from mcptrio.cli.terminal.messages import show_message
from mcptrio.cli.terminal.terminal import Interrupted, Terminal
from mcptrio.cli.terminal.url_dialog import URLDialog, in_brackets
from mcptrio.client.forms import Form, OpenURL
from mcptrio.client.handlers import Handlers, Roots
from mcptrio.errors import NotApproved
from mcptrio.ground.quoting import printable
from mcptrio.protocol.model.content import TextContent, ToolResultContent, ToolUseContent, UnknownContent
from mcptrio.protocol.model.elicitation import ElicitResult
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult, SamplingContentBlock

__all__ = ["TerminalUser", "ask", "handlers_for"]

_BROWSER_TIMEOUT = 20.0
"""Seconds for a browser to start."""
_MAX_SHOWN_CHARS = 4_000
"""Maximum number of characters of each block of a sampling request that are shown."""


class TerminalUser:
    """The user at the terminal. Ctrl-C during a question also cancels its call."""

    def __init__(self, console: Console, terminal: Terminal) -> None:
        self._console = console
        self._terminal = terminal

    async def fill_in(self, form: Form) -> ElicitResult:
        """Ask the user to fill in a form; each line is checked when it is entered."""
        async with self._terminal.exclusive():
            return await self._ask(form)

    async def open_url(self, page: OpenURL) -> ElicitResult:
        """Show a URL, and open it in the browser if the user agrees."""
        async with self._terminal.exclusive():
            answer = await self._ask(page)
            if answer.action == "accept":
                await self._open(page.url)
            return answer

    async def answer_sampling(self, params: CreateMessageParams) -> CreateMessageResult:
        """Show a sampling request, and let the user write the answer.

        Raises:
            NotApproved: The user declined.
        """
        async with self._terminal.exclusive():
            for line in self._request_lines(params):
                self._console.note_painted(line)
            try:
                text = await self._read_answer()
            except Interrupted:
                self._console.interrupts.interrupt()
                text = None
        if text is None:
            raise NotApproved("the user rejected the sampling request")
        return CreateMessageResult(
            role="assistant", content=(TextContent(text=text),), model="human", stop_reason="endTurn"
        )

    # Private

    async def _ask(self, question: Form | OpenURL) -> ElicitResult:
        try:
            return await ask(
                question,
                read_line=self._read_line,
                write=self._console.note_painted,
                width=self._console.width - 1,
                emphasise=self._emphasise,
            )
        except Interrupted:
            # In raw mode Ctrl-C is a key and not a signal, so the command does not notice it otherwise.
            self._console.interrupts.interrupt()
            return question.cancel()

    async def _read_line(self, prompt: str, hint: Callable[[str], str | None] | None) -> str:
        return await self._terminal.read_line(self._console.paint(prompt, "bold"), hint=hint)

    def _emphasise(self, text: str) -> str:
        painted = self._console.paint(text, "reverse")
        # Without colours, the host must stand out in another way: it shows whether a URL is deceptive.
        return painted if painted != text else in_brackets(text)

    async def _open(self, url: str) -> None:
        is_open = False
        with trio.move_on_after(_BROWSER_TIMEOUT):
            # webbrowser waits for a browser that runs in the terminal, and nothing can stop its thread.
            is_open = await trio.to_thread.run_sync(partial(_open_browser, url), abandon_on_cancel=True)
        if not is_open:
            self._console.note(f"no browser could be started; open it yourself: {url}")

    async def _read_answer(self) -> str | None:
        """Return the lines up to an empty one; ``None`` if the user declines."""
        lines: list[str] = []
        while True:
            try:
                line = await self._terminal.read_line(self._console.paint("answer> ", "bold"))
            except EOFError:
                return "\n".join(lines) or None
            if line.strip() in (":decline", ":cancel"):
                return None
            if not line.strip() and lines:
                return "\n".join(lines)
            if line.strip():
                # As in the forms: a text that begins with a colon is entered with two.
                lines.append(line.replace("::", ":", 1) if line.startswith("::") else line)

    def _request_lines(self, params: CreateMessageParams) -> Iterator[str]:
        width = self._console.width - 1
        yield self._console.paint("The server asks a model; you answer in its place:", "bold")
        if params.system_prompt:
            yield "system:"
            yield from wrap_quoted(params.system_prompt[:_MAX_SHOWN_CHARS], width)
        for message in params.messages:
            yield f"{message.role}:"
            for block in message.content:
                # Cut before wrapping, because a block may have megabytes. An empty block still gets its margin.
                yield from wrap_quoted(_describe_block(block)[:_MAX_SHOWN_CHARS], width) or ["  |"]
        limits = [f"at most {params.max_tokens} tokens"]
        preferences = params.model_preferences
        names = [hint.name for hint in (preferences.hints or () if preferences else ()) if hint.name]
        if names:
            limits.append(f"a model like {printable(', '.join(names))}")
        if params.stop_sequences:
            limits.append(f"stops at {printable(', '.join(map(repr, params.stop_sequences)))}")
        yield from wrap(f"({'; '.join(limits)})", width)
        yield from wrap("An empty line sends the answer; :decline refuses.", width)


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
    input_error = None
    if isinstance(question, Form):
        dialog = FormDialog(question, width=width)
        input_error = dialog.input_error
    else:
        dialog = URLDialog(question, width=width, emphasise=emphasise)
    reply = dialog.begin()
    while reply.result is None:
        write(reply.text)
        try:
            line = await read_line(reply.prompt, input_error)
        except EOFError:
            return question.cancel()
        reply = dialog.feed(line)
    write(reply.text)
    return reply.result


def handlers_for(console: Console, user: TerminalUser | None, *, roots: Roots | None, shows_log: bool) -> Handlers:
    """Return the handlers of the commands.

    Args:
        user: Asks the user; ``None``: the server may not ask questions.
        roots: The folders that the server may use.
        shows_log: True to show log messages.
    """
    log = partial(show_message, console) if shows_log else None
    # The client declares only the capabilities for which it has a handler.
    if user is None:
        return Handlers(roots=roots, log=log)
    return Handlers(elicit=user.fill_in, open_url=user.open_url, sample=user.answer_sampling, roots=roots, log=log)


def _open_browser(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _describe_block(block: SamplingContentBlock) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ToolUseContent):
        return f"[uses the tool {block.name}]"
    if isinstance(block, ToolResultContent):
        return f"[the result of a tool: {len(block.content)} blocks]"
    if isinstance(block, UnknownContent):
        return f"[{block.type}]"
    return f"[{block.type}: {block.mime_type}]"
