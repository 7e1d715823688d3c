"""The user's terminal: reads lines key by key, without a thread.

:mod:`mcptrio.cli.client.running` opens it if standard input and standard error are a terminal. The terminal is in raw
mode only while a line is read, and is always restored.

Why not readline or prompt_toolkit: reading here is one wait in Trio. It can be cancelled, output of the server appears
above the line, a question of the server interrupts it, and completions are requested in the same task. readline blocks
a thread that cannot be stopped. prompt_toolkit works in a worker thread, but adds 150 to 170 ms to the start of
``mcptrio shell``.

Source: termios(3).
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import trio

from mcptrio.cli.terminal.console import Console, Nothing, readable
from mcptrio.cli.terminal.input_lines import InputLines
from mcptrio.cli.terminal.keys import PASTES_OFF, PASTES_ON, KeyDecoder, TerminalKey
from mcptrio.cli.terminal.line_editor import LineCompletions, LineEditor
from mcptrio.cli.terminal.text_width import columns
from mcptrio.transports.fd_streams import ByteReader, open_reader

if sys.platform != "win32":
    import termios

__all__ = ["Complete", "Interrupted", "Terminal", "open_terminal"]

Complete: TypeAlias = Callable[[str], Awaitable[LineCompletions]]
"""Suggestions for a text that ends at the cursor."""

SUGGESTION_TIMEOUT = 2.0
"""Seconds that suggestions may take; the server that makes them is asked for each."""
_MAX_SUGGESTIONS = 200
"""Suggestions that are shown."""


class Interrupted(Exception):
    """Ctrl-C was typed."""


class Terminal:
    """Made by :func:`open_terminal`."""

    def __init__(self, console: Console, reader: ByteReader, fd: int) -> None:
        self._console = console
        self._reader = reader
        self._fd = fd
        self._has_keys = sys.platform != "win32" and console.has_bottom
        """Otherwise the terminal gives whole lines: Windows, and TERM=dumb."""
        self._lines = InputLines(reader)
        self._decoder = KeyDecoder()
        self._keys: list[TerminalKey] = []
        """Typed and not taken yet."""
        self._floor = trio.Lock()
        self._is_taken = False
        self._given_back = trio.Event()
        self._patient: tuple[trio.CancelScope, trio.Event] | None = None
        """Of a reader who lets others go first: what stops it, and what says that it has stopped."""

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
            prompt: printable; may contain styles.
            yields: whether a question (:meth:`floor`) may interrupt, even after the line was begun.

        Raises:
            EOFError: The end of the input, or Ctrl-D on an empty line.
            Interrupted: Ctrl-C.
        """
        if not self._has_keys:
            return await self._plain_line(prompt)
        editor = LineEditor(prompt, history=history, hint=hint, dim=lambda text: self._console.paint(text, "dim"))
        while True:
            while yields and self._is_taken:
                await self._given_back.wait()
            stopped = trio.Event()
            with trio.CancelScope() as scope:
                if yields:
                    self._patient = scope, stopped
                try:
                    with self._raw(), self._console.bottom(editor):
                        return await self._edit(editor, complete)
                finally:
                    self._patient = None
                    stopped.set()
            if not scope.cancelled_caught:
                raise AssertionError("an edited line ends with a value or an exception")

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[None]:
        """Use the terminal for one question at a time; a line that is read with ``yields`` waits."""
        async with self._floor:
            self._is_taken, self._given_back = True, trio.Event()
            try:
                if self._patient is not None:
                    scope, stopped = self._patient
                    scope.cancel()
                    await stopped.wait()  # two cannot read, and each gives the terminal back as it found it
                with self._console.bottom(Nothing()):
                    yield
            finally:
                self._is_taken = False
                self._given_back.set()

    # Private

    async def _plain_line(self, prompt: str) -> str:
        self._console.steer(prompt)
        line = await self._lines.read()
        if line is None:
            raise EOFError
        return line

    async def _edit(self, editor: LineEditor, complete: Complete | None) -> str:
        while True:
            key = await self._key()
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
                    await self._complete(editor, complete)
            if not self._keys:
                self._console.refresh()

    async def _key(self) -> TerminalKey:
        while not self._keys:
            data = await self._reader.read()
            if not data:
                raise EOFError
            self._keys.extend(self._decoder.feed(data))
        return self._keys.pop(0)

    async def _complete(self, editor: LineEditor, complete: Complete) -> None:
        completions: LineCompletions | None = None
        with trio.move_on_after(SUGGESTION_TIMEOUT):
            completions = await complete(editor.text[: editor.cursor])
        if completions is not None and not editor.complete(completions):
            shown = completions.shown or completions.candidates
            self._console.note(_in_columns([readable(each) for each in shown[:_MAX_SUGGESTIONS]], self._console.width))
            if len(shown) > _MAX_SUGGESTIONS:
                self._console.note(f"… and {len(shown) - _MAX_SUGGESTIONS} more", "dim")

    @contextmanager
    def _raw(self) -> Iterator[None]:
        """Switch to raw mode for input: keys arrive one by one without echo, Ctrl-C included. Output is unchanged."""
        if sys.platform == "win32":
            yield
            return
        before: list[Any] = termios.tcgetattr(self._fd)
        raw = [*before[:6], list(before[6])]
        raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0

        def restore() -> None:
            # Not TCSAFLUSH, which drops text typed ahead. Not TCSADRAIN, which waits for a stopped terminal.
            termios.tcsetattr(self._fd, termios.TCSANOW, before)
            self._console.steer(PASTES_OFF)

        termios.tcsetattr(self._fd, termios.TCSANOW, raw)
        self._console.interrupts.restore = restore
        self._console.steer(PASTES_ON)
        try:
            yield
        finally:
            self._console.interrupts.restore = None
            restore()


@asynccontextmanager
async def open_terminal(console: Console) -> AsyncIterator[Terminal | None]:
    """The terminal of standard input, if there is one, and standard error is shown there too."""
    if sys.stdin is None or not sys.stdin.isatty() or not console.is_err_terminal:
        yield None
        return
    fd = sys.stdin.fileno()
    reader = open_reader(os.dup(fd))
    try:
        yield Terminal(console, reader, fd)
    finally:
        reader.close()


def _in_columns(words: Sequence[str], width: int) -> str:
    widest = max(map(columns, words), default=0) + 2
    count = max(width // widest, 1)
    rows = -(-len(words) // count)
    lines = []
    for row in range(rows):
        line = "".join(word + " " * (widest - columns(word)) for word in words[row::rows])
        lines.append(line.rstrip())
    return "\n".join(lines)
