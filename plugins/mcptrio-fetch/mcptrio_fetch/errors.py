"""The errors for a page that cannot be fetched, with texts for a model.

A message is one line with the URL or host. Text from the network is truncated and made printable.
"""

from __future__ import annotations

import re

from mcptrio import ToolError

__all__ = ["FetchRefused", "Unreachable", "printable"]

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class FetchRefused(ToolError):
    """The operator's rules, the kind of address, or robots.txt forbid the request."""


class Unreachable(ToolError):
    """The site did not answer, or its answer is not valid HTTP."""


def printable(text: str, limit: int = 300) -> str:
    """Return a text on one line, with control characters escaped, truncated at ``limit`` characters."""
    if len(text) > limit:
        text = text[:limit] + "…"
    return _UNPRINTABLE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
