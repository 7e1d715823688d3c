"""Splits a line of the shell, which may be unfinished, into words.

Quotes and backslashes have their meaning in sh; no other character is special.
"""

from __future__ import annotations

import re
import shlex

from attrs import frozen

__all__ = ["TypedLine", "quote_word", "split_line"]

# In sh some of these characters have a meaning, but not in this shell. URIs and key=value need no quotes.
_PLAIN = re.compile(r"[\w@%+=:,./{}*~-]*\Z", re.ASCII)


@frozen
class TypedLine:
    """A line up to the cursor."""

    words: tuple[str, ...]
    """The complete words before it."""
    current: str
    """The word at the cursor, without its quotes; empty after a space."""
    start: int
    """The offset at which this word begins, including its quotes."""


def split_line(text: str) -> TypedLine:
    """Split a line that may end in the middle of a word, and of quotes."""
    words: list[str] = []
    current: str | None = None
    start, quote, index = len(text), "", 0
    while index < len(text):
        character = text[index]
        if not quote and character.isspace():
            if current is not None:
                words.append(current)
            current = None
        else:
            if current is None:
                current, start = "", index
            if character == "\\" and quote != "'":
                index += 1
                current += text[index : index + 1]
            elif character in ("'", '"') and quote in ("", character):
                quote = "" if quote else character
            else:
                current += character
        index += 1
    return TypedLine(tuple(words), current or "", len(text) if current is None else start)


def quote_word(word: str) -> str:
    """Quote a word for typing: ``key='a b'`` rather than ``'key=a b'``."""
    if _PLAIN.match(word):
        return word
    key, equals, value = word.partition("=")
    return f"{key}={shlex.quote(value)}" if equals and _PLAIN.match(key) else shlex.quote(word)
