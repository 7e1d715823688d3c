"""Escapes text of another program, so that it is safe in a terminal and in a log.

Source: Unicode Technical Report 36, section 3.6 (invisible characters); ECMA-48 (control sequences of terminals).
"""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return the text on one line, with each character that ``str.isprintable`` excludes as an escape.

    These are control, format and private characters, lone surrogates, and spaces other than U+0020. The result can
    neither move the cursor nor reverse the direction of the line that contains it.
    """
    if text.isprintable():
        return text
    return "".join(
        # unicode_escape yields printable ASCII only.
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
