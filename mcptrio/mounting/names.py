"""Names of a mounted server's tools and prompts.

``fs_read_file`` is the tool ``read_file`` of the server that is mounted with the prefix ``fs``. A name that already
starts with the prefix is not changed. If a name has characters other than ``A-Za-z0-9_-``, or more than 64 characters,
``_`` replaces the others, and the name is cut and ends with ``_`` and eight hexadecimal digits of the SHA-256 of the
full name. So a name depends only on the mount and the tool, and every host application accepts it.

Source: MCP 2026-07-28, server/tools, "Tool Names"; host applications accept ``[A-Za-z0-9_-]{1,64}``.
"""

from __future__ import annotations

import re
from hashlib import sha256

from mcptrio.plugins.naming import is_portable, prefixed_name

__all__ = ["MAX_NAME_CHARS", "mounted_name"]

MAX_NAME_CHARS = 64
"""Characters of a name that host applications accept."""
_DIGITS = 8

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def mounted_name(prefix: str, name: str) -> str:
    """Return the name of a tool or prompt here.

    Args:
        prefix: The prefix of the mount; empty for none.
        name: The name on the mounted server.
    """
    whole = prefixed_name(prefix, name)
    if is_portable(whole):
        return whole
    # A name may have lone surrogates, from JSON escapes, which plain UTF-8 cannot encode.
    digits = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    # The digest distinguishes long names that begin with the same characters.
    return f"{_OTHER.sub('_', whole)[: MAX_NAME_CHARS - _DIGITS - 1]}_{digits}"
