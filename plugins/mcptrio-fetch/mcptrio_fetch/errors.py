"""The errors for a page that cannot be fetched, with texts for a model.

A message is one line with the URL or host. Text from the network is shortened and printable.
"""

from __future__ import annotations

import re

from mcptrio import ToolError

__all__ = ["FetchRefused", "Unreachable", "printable"]

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class FetchRefused(ToolError):
    """The request is not allowed: by the operator's rules, by the kind of address, or by robots.txt."""


class Unreachable(ToolError):
    """The site did not answer, or not in HTTP."""


def printable(text: str, limit: int = 300) -> str:
    """A text on one line, with control characters as escapes, cut at ``limit`` characters."""
    if len(text) > limit:
        text = text[:limit] + "…"
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
