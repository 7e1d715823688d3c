"""Parses the bytes of a terminal into keys.

:mod:`mcptrio.cli.terminal.terminal` uses it. No I/O: every byte is part of a key, part of a text, or ignored, and an
incomplete sequence waits for its rest.

Source: ECMA-48, section 5.4 (control sequences); xterm, "ctlseqs", "PC-Style Function Keys" and "Bracketed Paste Mode".
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from attrs import frozen

__all__ = ["PASTES_OFF", "PASTES_ON", "KeyDecoder", "KeyName", "TerminalKey"]

KeyName: TypeAlias = Literal[
    "text",
    "enter",
    "tab",
    "backspace",
    "delete",
    "left",
    "right",
    "up",
    "down",
    "home",
    "end",
    "word-left",
    "word-right",
    "kill-word",
    "kill-start",
    "kill-end",
    "yank",
    "interrupt",
    "end-of-input",
]

PASTES_ON = "\x1b[?2004h"
PASTES_OFF = "\x1b[?2004l"
"""Sequences that make the terminal mark pastes, so that a line end in a paste is not Enter."""


@frozen
class TerminalKey:
    name: KeyName
    text: str = ""
    """The typed or pasted text, if ``name`` is ``text``."""


_CONTROL: dict[str, KeyName] = {
    "\r": "enter",
    # As in readline, Ctrl-J enters the line too.
    "\n": "enter",
    "\t": "tab",
    # Terminals send DEL or BS for Backspace.
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x01": "home",
    "\x02": "left",
    "\x03": "interrupt",
    "\x04": "end-of-input",
    "\x05": "end",
    "\x06": "right",
    "\x0b": "kill-end",
    "\x0e": "down",
    "\x10": "up",
    "\x15": "kill-start",
    "\x17": "kill-word",
    "\x19": "yank",
}
_SEQUENCES: dict[str, KeyName] = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "[H": "home",
    "[F": "end",
    # Cursor keys in application mode (DECCKM), which an earlier program may have left on.
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "OH": "home",
    "OF": "end",
    # Home and End of the Linux console and tmux (1, 4) and of rxvt (7, 8).
    "[1~": "home",
    "[7~": "home",
    "[4~": "end",
    "[8~": "end",
    "[3~": "delete",
    # xterm encodes the modifiers as 1 plus a bit mask: 5 is Ctrl, 3 is Alt.
    "[1;5C": "word-right",
    "[1;3C": "word-right",
    "[1;5D": "word-left",
    "[1;3D": "word-left",
    # Alt is an Escape before the key. Apple's Terminal sends these two for Option with an arrow.
    "f": "word-right",
    "b": "word-left",
    "\x7f": "kill-word",
}
# A control sequence with its parameters (CSI), one character after SS3, or Alt with another key.
_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O[ -~]|[^\[O\x1b])")
_INCOMPLETE = re.compile(r"\x1b(\[[0-?]*[ -/]*|O)?\Z")
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
# A sequence that never ends must not swallow what the user types after it.
_MAX_SEQUENCE_CHARS = 32
_MAX_PASTE_CHARS = 100_000
"""Maximum characters of a paste; further ones are dropped."""
_TEXT = re.compile(r"[^\x00-\x1f\x7f]+")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f]+")


class KeyDecoder:
    def __init__(self) -> None:
        # A read may end within a character of several bytes.
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._rest = ""
        """The received part of an incomplete sequence."""
        self._paste: str | None = None
        """The received part of a paste."""

    def feed(self, data: bytes) -> Iterator[TerminalKey]:
        """Yield the complete keys. The iterator must be exhausted."""
        text = self._rest + self._decode(data)
        self._rest = ""
        while text:
            if self._paste is not None:
                paste, end, text = text.partition(_PASTE_END)
                if not end:
                    # The mark may arrive in two reads.
                    overlap = _overlap(paste)
                    self._rest = paste[len(paste) - overlap :]
                    paste = paste[: len(paste) - overlap]
                self._paste = (self._paste + paste)[:_MAX_PASTE_CHARS]
                if end:
                    # Line ends at both ends come from copying whole lines; elsewhere they separate words.
                    yield TerminalKey("text", _INVISIBLE.sub(" ", self._paste.strip("\r\n")))
                    self._paste = None
            elif text.startswith(_PASTE_START):
                self._paste, text = "", text[len(_PASTE_START) :]
            elif match := _TEXT.match(text):
                yield TerminalKey("text", match[0])
                text = text[match.end() :]
            elif match := _SEQUENCE.match(text):
                if name := _SEQUENCES.get(match[1]):
                    yield TerminalKey(name)
                text = text[match.end() :]
            elif _INCOMPLETE.match(text) and len(text) < _MAX_SEQUENCE_CHARS:
                self._rest, text = text, ""
            else:
                # An Escape that begins no sequence is dropped alone, so the characters after it still count.
                if name := _CONTROL.get(text[0]):
                    yield TerminalKey(name)
                text = text[1:]


def _overlap(text: str) -> int:
    """Return the number of last characters that may begin the end marker of a paste."""
    return next((size for size in range(len(_PASTE_END) - 1, 0, -1) if text.endswith(_PASTE_END[:size])), 0)
