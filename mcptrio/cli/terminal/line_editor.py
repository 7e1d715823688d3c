"""The line editor: a text, a cursor, and the history.

:mod:`mcptrio.cli.terminal.terminal` passes keys and draws it. No I/O. It always draws one row, which scrolls over a
longer text, so the lines around it do not move.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import click
from attrs import frozen

from mcptrio.cli.terminal.keys import KeyName, TerminalKey
from mcptrio.cli.terminal.text_width import columns, cut, fitting_count
from mcptrio.ground.quoting import printable

__all__ = ["KeyEffect", "LineCompletions", "LineEditor"]

KeyEffect: TypeAlias = Literal["enter", "complete", "interrupt", "end"] | None
"""The effect of a key other than editing: the line is entered; completions are requested; Ctrl-C; Ctrl-D."""

_MAX_LINE_CHARS = 100_000
"""Maximum characters of a line; further ones are dropped."""
_MIN_TEXT_COLUMNS = 30
"""Columns that a long prompt leaves for the text, if the terminal is wide enough."""
_CONTINUED_ENDINGS = ("=", ".", "/", ":", " ", '"')
"""Endings of a candidate after which the user types more."""
_WORD_BEFORE = re.compile(r"\w*\W*\Z")
_WORD_AFTER = re.compile(r"\W*\w*")


@frozen
class LineCompletions:
    """Completions at the cursor.

    Args:
        start: The beginning of the completed text.
        candidates: Each replaces the text from ``start`` to the cursor.
        labels: The texts to show, if they differ from the candidates.
    """

    start: int
    candidates: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class LineEditor:
    """One line that is being edited.

    Args:
        prompt: The text before it; printable, may contain styles.
        history: Earlier lines, the oldest first.
        hint: Returns the hint to show after a text, or nothing.
    """

    def __init__(
        self,
        prompt: str,
        *,
        history: Sequence[str] = (),
        hint: Callable[[str], str | None] | None = None,
        dim: Callable[[str], str] = str,
    ) -> None:
        self.text = ""
        self.cursor = 0
        self._prompt = prompt
        self._history = list(history)
        self._index = len(self._history)
        """The index of the shown line of the history; after the last one comes the typed line."""
        self._typed = ""
        """The text typed before the user browsed the history. Only lines that start with it are shown."""
        self._killed_text = ""
        self._hint = hint
        self._dim = dim

    def feed(self, key: TerminalKey) -> KeyEffect:
        """Process a key. Return its effect other than editing."""
        match key.name:
            case "text":
                self._insert(key.text)
            case "enter":
                return "enter"
            case "tab":
                return "complete"
            case "interrupt":
                return "interrupt"
            # As in readline, Ctrl-D deletes the next character of a line that is not empty; see _KILLS.
            case "end-of-input" if not self.text:
                return "end"
            case "up" | "down":
                # _typed stays, so that the next step searches for the same text.
                self._browse(-1 if key.name == "up" else 1)
                return None
            case "yank":
                self._insert(self._killed_text)
            case name if name in _MOVES:
                self.cursor = self._target_of(name)
            case name if name in _KILLS:
                # As in readline, Ctrl-Y inserts what Ctrl-K, Ctrl-U and Ctrl-W removed, but no single characters.
                self._kill(_KILLS[name], keep=name.startswith("kill"))
            case _:
                return None
        if key.name not in _MOVES:
            self._index, self._typed = len(self._history), self.text
        return None

    def complete(self, completions: LineCompletions) -> bool:
        """Insert the common prefix of all candidates, and a space after the only one.

        Returns:
            True if text was inserted; otherwise show the candidates.
        """
        candidates = completions.candidates
        if not candidates:
            return True
        typed = self.text[completions.start : self.cursor]
        common = _common(candidates)
        if len(candidates) == 1:
            # A space would begin the next argument, but after these endings the user continues this one.
            common += "" if common.endswith(_CONTINUED_ENDINGS) else " "
        # A common prefix that does not continue the typed text, for example with a quote, would delete what was typed.
        elif common == typed or not common.startswith(typed):
            return False
        self.text = self.text[: completions.start] + common + self.text[self.cursor :]
        self.cursor = completions.start + len(common)
        self._index, self._typed = len(self._history), self.text
        return True

    def settle(self) -> None:
        """Show the entered line without a hint, with the cursor at its end."""
        self.cursor, self._hint = len(self.text), None

    def draw(self, width: int) -> str:
        """Return one row, with the cursor in its place."""
        prompt, used = self._prompt, columns(click.unstyle(self._prompt))
        longest = max(width - _MIN_TEXT_COLUMNS, width // 2)
        if used > longest:
            prompt = cut(click.unstyle(prompt), longest)
            used = columns(prompt)
        room = max(width - used, 4)
        before, after = self._window(room)
        hint_text = ""
        if self._hint is not None and self.cursor == len(self.text) and (hint := self._hint(self.text)):
            left = room - columns(before) - columns(after) - 2
            hint_text = f"  {cut(printable(hint), left)}" if left > 3 else ""
        back = columns(after) + columns(hint_text)
        # Terminals read a count of 0 as 1.
        return f"{prompt}{before}{after}{self._dim(hint_text) if hint_text else ''}" + (f"\x1b[{back}D" if back else "")

    # Private

    def _insert(self, text: str) -> None:
        text = text[: max(_MAX_LINE_CHARS - len(self.text), 0)]
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def _target_of(self, move: KeyName) -> int:
        match move:
            case "home":
                return 0
            case "end":
                return len(self.text)
            case "left":
                return max(self.cursor - 1, 0)
            case "right":
                return min(self.cursor + 1, len(self.text))
            case "word-left":
                match = _WORD_BEFORE.search(self.text[: self.cursor])
                return match.start() if match else 0
            case _:
                match = _WORD_AFTER.match(self.text, self.cursor)
                return match.end() if match else len(self.text)

    def _kill(self, move: KeyName, *, keep: bool) -> None:
        to = self._target_of(move)
        begin, end = min(to, self.cursor), max(to, self.cursor)
        if keep and begin != end:
            self._killed_text = self.text[begin:end]
        self.text = self.text[:begin] + self.text[end:]
        self.cursor = begin

    def _browse(self, step: int) -> None:
        """Show the next line of the history, up or down, that begins with the typed text."""
        index = self._index + step
        while 0 <= index < len(self._history):
            # A repeated line is skipped, because the key would seem to have no effect.
            if self._history[index].startswith(self._typed) and self._history[index] != self.text:
                self._index, self.text = index, self._history[index]
                break
            index += step
        else:
            if step > 0:
                self._index, self.text = len(self._history), self._typed
        self.cursor = len(self.text)

    def _window(self, room: int) -> tuple[str, str]:
        before, after = printable(self.text[: self.cursor]), printable(self.text[self.cursor :])
        if columns(before) + columns(after) <= room:
            return before, after
        # A quarter of the row stays free for the text after the cursor.
        if columns(before) > room * 3 // 4:
            begin = len(before)
            # One column is for the ellipsis.
            used = 1
            while begin and used + columns(before[begin - 1]) <= room * 3 // 4:
                begin -= 1
                used += columns(before[begin])
            before = f"…{before[begin:]}"
        return before, after[: fitting_count(after, room - columns(before))]


_MOVES: frozenset[KeyName] = frozenset({"left", "right", "home", "end", "word-left", "word-right"})
_KILLS: dict[KeyName, KeyName] = {
    "backspace": "left",
    "delete": "right",
    "end-of-input": "right",
    "kill-start": "home",
    "kill-end": "end",
    "kill-word": "word-left",
}


def _common(candidates: Sequence[str]) -> str:
    # A prefix that the first and the last in sorted order share is common to all in between.
    first, last = min(candidates), max(candidates)
    for at, character in enumerate(first):
        if not last.startswith(character, at):
            return first[:at]
    return first
