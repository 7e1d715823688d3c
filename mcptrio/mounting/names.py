"""What the tools and prompts of a mounted server are called here.

Used when they are offered.
The one rule: a name says nothing but the mount and the tool, so it is the same on every machine and every day; and
every host takes it.

How: ``fs_read_file`` is ``read_file`` of what is mounted with the prefix ``fs``; a name that begins so already stays as
it is. One with other characters than ``A-Za-z0-9_-``, or of more than 64, is written with ``_`` in their place, cut,
and followed by ``_`` and eight hexadecimal digits of the SHA-256 of what it would have been.

Source: MCP 2026-07-28, server/tools, "Tool Names"; hosts accept ``[A-Za-z0-9_-]{1,64}``.
"""

from __future__ import annotations

import re
from hashlib import sha256

from mcptrio.plugins.naming import exposed, is_portable

__all__ = ["MAX_NAME_CHARS", "mounted_name"]

MAX_NAME_CHARS = 64
"""Characters."""
_DIGITS = 8

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def mounted_name(prefix: str, name: str) -> str:
    """
    Args:
        prefix: of the mount; empty for none.
        name: of the tool, as the mounted server calls it.
    """
    whole = exposed(prefix, name)
    if is_portable(whole):
        return whole
    digits = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{_OTHER.sub('_', whole)[: MAX_NAME_CHARS - _DIGITS - 1]}_{digits}"
