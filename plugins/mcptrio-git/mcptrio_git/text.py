"""Converts bytes from git to text that is safe to send: pages of a long text, names on one line, URLs without
passwords.

Each output of git in an answer passes through it. Bytes that are not UTF-8 cause no error, and a name from a repository
cannot begin a new line.
"""

from __future__ import annotations

import codecs
import re

from attrs import frozen

__all__ = ["TextPage", "name_text", "page_of", "printable", "redact_urls", "text_of", "truncate"]

# Strings instead of compiled patterns: re compiles them at their first use, so they do not delay the start.
_UNPRINTABLE = r"[\x00-\x1f\x7f\x80-\x9f\u2028\u2029\ud800-\udfff]"
# In https URLs, a token is often used as the user name. In other URLs, a user without a password is not secret (git@).
_USER = r"(?i)(https?://)[^/\s]*@|(://)[^/\s]*:[^/\s]*@"
_MORE = "…"


@frozen(kw_only=True, eq=False, repr=False)
class TextPage:
    """A part of a long text."""

    text: str
    next_offset: int | None
    """The offset in bytes of the next part; None for the last part."""


def page_of(data: bytes, *, start: int, cut: bool) -> TextPage:
    """Make a page of a text that starts at byte ``start``.

    Args:
        cut: True if more text follows. The page then ends after the last whole line, or after a whole character.
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


def name_text(data: bytes) -> str:
    """Decode a path or the name of a reference. Bytes that are not UTF-8 become ``\\xNN``."""
    return data.decode("utf-8", "backslashreplace")


def printable(text: str, limit: int = 1000) -> str:
    """Return a text on one line, with escapes for control characters."""
    return re.sub(_UNPRINTABLE, _escape, truncate(text, limit))


def truncate(text: str, limit: int) -> str:
    """Truncate a text to this number of characters, with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + _MORE


def redact_urls(text: str) -> str:
    """Return a text without passwords and tokens in URLs."""
    return re.sub(_USER, lambda match: f"{match[1] or match[2]}***@", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # os.fsdecode represents a byte that is not UTF-8 like this
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
