"""Pages of a sorted list, and their cursors.

The methods that return lists use them. A cursor contains the last key, so it is valid on all replicas and after
changes.

Source: MCP 2026-07-28, server/utilities/pagination.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from mcptrio import InvalidParams

__all__ = ["decode_cursor", "encode_cursor", "text_param"]

_MAX_TEXT_CHARS = 16_384


def text_param(params: dict[str, Any], name: str) -> str:
    """Return a required parameter.

    Raises:
        InvalidParams: The parameter is missing, not a text, or too long.
    """
    value = params.get(name)
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARS:
        got = len(value) if isinstance(value, str) else type(value).__name__
        raise InvalidParams(f"expected a string of at most {_MAX_TEXT_CHARS} characters, got {got} at `{name}`")
    return value


def encode_cursor(kind: str, key: str) -> str:
    """Return the cursor for the page after a key.

    Args:
        kind: The name of the list. A cursor of another list is refused.
    """
    return base64.urlsafe_b64encode(f"{kind}\0{key}".encode()).decode().rstrip("=")


def decode_cursor(kind: str, params: dict[str, Any], keys: Sequence[str]) -> int:
    """Return the index at which a page begins.

    Raises:
        InvalidParams: The cursor is not from this list.
    """
    cursor = params.get("cursor")
    if cursor is None:
        return 0
    error = InvalidParams("expected a cursor given by this list at `cursor`")
    if not isinstance(cursor, str) or len(cursor) > _MAX_TEXT_CHARS:
        raise error
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise error from None
    found, separator, last = text.partition("\0")
    if found != kind or not separator:
        raise error
    return sum(key <= last for key in keys)
