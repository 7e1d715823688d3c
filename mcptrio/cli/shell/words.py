"""Splits a line of the shell into words, also an unfinished one.

Quotes and backslashes have their meaning in sh; no other character is special.
"""

from __future__ import annotations

import re
import shlex

from attrs import frozen

__all__ = ["Typed", "quoted", "typed_words"]

# In sh some of these characters have a meaning, but not in this shell. URIs and key=value need no quotes.
_PLAIN = re.compile(r"[\w@%+=:,./{}*~-]*\Z", re.ASCII)


@frozen
class Typed:
    """A line up to the cursor."""

    words: tuple[str, ...]
    """The complete words, which are followed by another one."""
    current: str
    """The word at the cursor, without its quotes; empty behind a space."""
    start: int
    """Where that begins in the line, quotes included."""


def typed_words(text: str) -> Typed:
    """Split a line that may end in the middle of a word, and of quotes."""
    words: list[str] = []
    current: str | None = None
    start, quote, at = len(text), "", 0
    while at < len(text):
        character = text[at]
        if not quote and character.isspace():
            if current is not None:
                words.append(current)
            current = None
        else:
            if current is None:
                current, start = "", at
            if character == "\\" and quote != "'":
                at += 1
                current += text[at : at + 1]
            elif character in ("'", '"') and quote in ("", character):
                quote = "" if quote else character
            else:
                current += character
        at += 1
    return Typed(tuple(words), current or "", len(text) if current is None else start)


def quoted(word: str) -> str:
    """Quote a word for typing: ``key='a b'`` rather than ``'key=a b'``."""
    if _PLAIN.match(word):
        return word
    key, equals, value = word.partition("=")
    return f"{key}={shlex.quote(value)}" if equals and _PLAIN.match(key) else shlex.quote(word)
