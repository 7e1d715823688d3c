"""Text of another program made harmless for a terminal and for a log.

Source: Unicode Technical Report 36, section 3.6 (what does not show); ECMA-48 (what steers a terminal).
"""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return the text on one line: control, format and private characters, lone surrogates and odd spaces as escapes.

    So a message can neither move the cursor nor reverse the line that contains it.
    """
    if text.isprintable():
        return text
    return "".join(
        # unicode_escape is ASCII and never contains a character that is not printable.
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
