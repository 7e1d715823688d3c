"""The user's terminal: reads lines key by key, without a thread.

:mod:`mcptrio.cli.client.running` opens it if standard input and standard error are a terminal. The terminal is in raw
mode only while a line is read, and is always restored.

Source: termios(3).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import trio

from mcptrio.cli.terminal.console import Console, EmptyBottom, readable
from mcptrio.cli.terminal.input_lines import InputLines, open_input
from mcptrio.cli.terminal.keys import PASTES_OFF, PASTES_ON, KeyDecoder, TerminalKey
from mcptrio.cli.terminal.line_editor import LineCompletions, LineEditor
from mcptrio.cli.terminal.text_width import columns
from mcptrio.transports.fd_streams import ByteReader

if sys.platform != "win32":
    import termios

__all__ = ["Complete", "Interrupted", "Terminal", "open_terminal"]

Complete: TypeAlias = Callable[[str], Awaitable[LineCompletions]]
"""Suggestions for a text that ends at the cursor."""

SUGGESTION_TIMEOUT = 2.0
"""Seconds to wait for suggestions from the server. Keys are not processed during this time."""
_MAX_SUGGESTIONS = 200
"""Suggestions that are shown."""


class Interrupted(Exception):
    """Ctrl-C was typed."""


# readline blocks a thread that cannot be cancelled. prompt_toolkit works in a worker thread, but adds 150 to 170 ms to
# the start of "mcptrio shell". Here, reading is one wait in Trio: it can be cancelled, output and questions of the
# server can interrupt it, and the same task requests completions.
class Terminal:
    """The user's terminal, from :func:`open_terminal`."""

    def __init__(self, console: Console, reader: ByteReader, fd: int) -> None:
        self._console = console
        self._reader = reader
        self._fd = fd
        self.has_keys = sys.platform != "win32" and console.has_bottom
        """False on Windows and with TERM=dumb, where the terminal delivers whole lines."""
        self._lines = InputLines(reader)
        self._decoder = KeyDecoder()
        self._keys: list[TerminalKey] = []
        """Keys that were typed ahead."""
        self._questions = trio.Lock()
        self._has_question = False
        self._question_ended = trio.Event()
        self._yielding: tuple[trio.CancelScope, trio.Event] | None = None
        """The scope that interrupts a reader with ``yields``, and the event that is set when the reader has stopped."""

    async def read_line(
        self,
        prompt: str,
        *,
        history: Sequence[str] = (),
        complete: Complete | None = None,
        hint: Callable[[str], str | None] | None = None,
        yields: bool = False,
    ) -> str:
        """Read a line.

        Args:
            prompt: Printable; may contain styles.
            yields: True if a question (:meth:`exclusive`) may interrupt, even after the line was begun.

        Raises:
            EOFError: The end of the input, or Ctrl-D on an empty line.
            Interrupted: Ctrl-C.
        """
        if not self.has_keys:
            return await self._read_plain_line(prompt)
        editor = LineEditor(prompt, history=history, hint=hint, dim=lambda text: self._console.paint(text, "dim"))
        # The editor outlives an interruption, so the user continues the same line after the question.
        while True:
            while yields and self._has_question:
                await self._question_ended.wait()
            stopped = trio.Event()
            with trio.CancelScope() as scope:
                if yields:
                    self._yielding = scope, stopped
                try:
                    with self._raw_mode(), self._console.bottom(editor):
                        return await self._edit_line(editor, complete)
                finally:
                    self._yielding = None
                    stopped.set()
            if not scope.cancelled_caught:
                raise AssertionError("an edited line ends with a value or an exception")

    @contextmanager
    def keys(self) -> Iterator[Callable[[], Awaitable[TerminalKey]]]:
        """Yield a function that returns the next key, or raises ``EOFError`` at the end of the input."""
        with self._raw_mode():
            yield self._next_key

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Reserve the terminal for one question at a time, and interrupt a line that is read with ``yields``."""
        async with self._questions:
            self._has_question, self._question_ended = True, trio.Event()
            try:
                if self._yielding is not None:
                    scope, stopped = self._yielding
                    scope.cancel()
                    # Both would read the same descriptor, and restore the other's mode.
                    await stopped.wait()
                # The question replaces a progress bar or the interrupted line.
                with self._console.bottom(EmptyBottom()):
                    yield
            finally:
                self._has_question = False
                self._question_ended.set()

    # Private

    async def _read_plain_line(self, prompt: str) -> str:
        self._console.write_control(prompt)
        line = await self._lines.read()
        if line is None:
            raise EOFError
        return line

    async def _edit_line(self, editor: LineEditor, complete: Complete | None) -> str:
        while True:
            key = await self._next_key()
            match editor.feed(key):
                case "enter":
                    editor.settle()
                    self._console.keep_bottom()
                    return editor.text
                case "interrupt":
                    self._console.keep_bottom()
                    raise Interrupted
                case "end":
                    self._console.keep_bottom()
                    raise EOFError
                case "complete" if complete is not None:
                    await self._show_completions(editor, complete)
            # Keys that arrive together, such as a paste, are drawn once.
            if not self._keys:
                self._console.refresh()

    async def _next_key(self) -> TerminalKey:
        while not self._keys:
            data = await self._reader.read()
            if not data:
                raise EOFError
            self._keys.extend(self._decoder.feed(data))
        return self._keys.pop(0)

    async def _show_completions(self, editor: LineEditor, complete: Complete) -> None:
        completions: LineCompletions | None = None
        # The line waits for the suggestions, so a slow server must not block it.
        with trio.move_on_after(SUGGESTION_TIMEOUT):
            completions = await complete(editor.text[: editor.cursor])
        if completions is not None and not editor.complete(completions):
            labels = completions.labels or completions.candidates
            self._console.note(_in_columns([readable(each) for each in labels[:_MAX_SUGGESTIONS]], self._console.width))
            if len(labels) > _MAX_SUGGESTIONS:
                self._console.note(f"… and {len(labels) - _MAX_SUGGESTIONS} more", "dim")

    @contextmanager
    def _raw_mode(self) -> Iterator[None]:
        """Switch the input to raw mode: keys arrive one by one without echo, Ctrl-C included."""
        if sys.platform == "win32":
            yield
            return
        before: list[Any] = termios.tcgetattr(self._fd)
        # "before" must keep the old values, so its nested list of control characters is copied too.
        raw = [*before[:6], list(before[6])]
        # ICRNL turns Enter into a line feed, and IXON lets Ctrl-S stop the output. raw[1], the output, is not changed,
        # so that a line feed from another task still returns to the first column.
        raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
        # With ISIG, Ctrl-C would overtake the keys typed before it. IEXTEN reserves Ctrl-V.
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        # A read returns as soon as there is one byte.
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0

        def restore() -> None:
            # Not TCSAFLUSH, which drops text typed ahead. Not TCSADRAIN, which waits for a stopped terminal.
            termios.tcsetattr(self._fd, termios.TCSANOW, before)
            self._console.write_control(PASTES_OFF)

        termios.tcsetattr(self._fd, termios.TCSANOW, raw)
        # Interrupts may exit the process without running the finally block below.
        self._console.interrupts.restore = restore
        self._console.write_control(PASTES_ON)
        try:
            yield
        finally:
            self._console.interrupts.restore = None
            restore()


@asynccontextmanager
async def open_terminal(console: Console) -> AsyncIterator[Terminal | None]:
    """Open the terminal of standard input; ``None`` unless standard error is also shown at a terminal."""
    if sys.stdin is None or not sys.stdin.isatty() or not console.is_err_terminal:
        yield None
        return
    with open_input() as reader:
        yield Terminal(console, reader, sys.stdin.fileno())


def _in_columns(words: Sequence[str], width: int) -> str:
    widest = max(map(columns, words), default=0) + 2
    count = max(width // widest, 1)
    rows = -(-len(words) // count)
    lines = []
    for row in range(rows):
        line = "".join(word + " " * (widest - columns(word)) for word in words[row::rows])
        lines.append(line.rstrip())
    return "\n".join(lines)
