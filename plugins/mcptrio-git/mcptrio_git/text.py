"""Converts bytes from git to text that is safe to send: pages of a long text, names on one line, URLs without
passwords.

Used for every output of git in an answer. Bytes that are not Unicode cause no error, and a name from a repository
cannot begin a new line.
"""

from __future__ import annotations

import codecs
import re

from attrs import frozen

__all__ = ["TextPage", "clip", "named", "page_of", "printable", "redacted", "text_of"]

# Strings, not compiled patterns: that is done when one is first used, and most starts of a server never do.
_UNPRINTABLE = r"[\x00-\x1f\x7f\x80-\x9f\u2028\u2029\ud800-\udfff]"
# A token is often the user's name of an https URL; of other URLs a user without a password is no secret (git@).
_USER = r"(?i)(https?://)[^/\s]*@|(://)[^/\s]*:[^/\s]*@"
_MORE = "…"


@frozen(kw_only=True, eq=False, repr=False)
class TextPage:
    """A piece of a long text."""

    text: str
    next_offset: int | None
    """The byte at which the next part begins; None if this is the last one."""


def page_of(data: bytes, *, start: int, cut: bool) -> TextPage:
    """Make a page of the text that starts at byte ``start``.

    Args:
        cut: there is more text; the page then ends with the last whole line, or with a whole character.
    """
    if not cut:
        return TextPage(text=text_of(data), next_offset=None)
    end = data.rfind(b"\n") + 1
    if not end:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(data)
        end = len(data) - len(decoder.getstate()[0])  # without the beginning of an incomplete character
    return TextPage(text=text_of(data[:end]), next_offset=start + end)


def text_of(data: bytes) -> str:
    """Decode UTF-8; invalid bytes become U+FFFD."""
    return data.decode("utf-8", "replace")


def named(data: bytes) -> str:
    """A path or the name of a reference; bytes that are no UTF-8 are written as ``\\xNN``."""
    return data.decode("utf-8", "backslashreplace")


def printable(text: str, limit: int = 1000) -> str:
    """A text on one line: control characters are written as escapes."""
    return re.sub(_UNPRINTABLE, _escape, clip(text, limit))


def clip(text: str, limit: int) -> str:
    """Truncate a text to this number of characters, with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + _MORE


def redacted(text: str) -> str:
    """The text without passwords and tokens in URLs."""
    return re.sub(_USER, lambda found: f"{found[1] or found[2]}***@", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was no UTF-8, as os.fsdecode keeps it
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
