"""Text of somebody else made harmless for a terminal.

Used wherever a server's words are shown to a person. The one rule: what is not visible is written out (``\\x1b``,
``\\u202e``), so a message can neither move the cursor nor reverse the line it stands in.

Source: Unicode Technical Report 36, section 3.6 (what does not show); ECMA-48 (what steers a terminal).
"""

from __future__ import annotations

__all__ = ["printable", "quote", "quote_name"]

_SHOWN = 60
"""Characters of a value that an error repeats."""


def printable(text: str) -> str:
    """The text on one line: control, format and private characters, lone surrogates and odd spaces as escapes."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def quote(text: str, *, most: int = _SHOWN) -> str:
    """The text in quotation marks for an error, cut after ``most`` characters."""
    return f'"{printable(text)}"' if len(text) <= most else f'"{printable(text[:most])}…"'


def quote_name(name: str) -> str:
    """The name of a field for an error, in backticks, cut likewise."""
    return f"`{printable(name[:_SHOWN])}`"
