"""The cursors of lists, which a client returns for the next page: the kind of list, a position and a name.

The registries use them. The name finds the place again after the list has changed.

Source: MCP 2026-07-28, server/utilities/pagination.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from mcptrio.errors import InvalidParams

__all__ = ["cursor_of", "read_cursor"]

_MAX_CURSOR_CHARS: Final = 4096


def cursor_of(kind: str, position: int, name: str) -> str:
    """Return the cursor of the page after this entry."""
    # Base64, so that clients do not take the cursor apart; NUL cannot occur in a name.
    return base64.urlsafe_b64encode(f"{kind}\0{position}\0{name}".encode()).decode().rstrip("=")


def read_cursor(kind: str, cursor: str) -> tuple[int, str]:
    """Return the position and name in a cursor.

    Raises:
        InvalidParams: it is not one of a list of this kind.
    """
    # One message for all faults: a cursor is opaque, and its parts are none of the client's business.
    error = InvalidParams("expected a cursor given by this list @ $.cursor")
    if len(cursor) > _MAX_CURSOR_CHARS:
        raise error
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        found, position, name = text.split("\0", 2)
        place = int(position)
    except (binascii.Error, ValueError):
        raise error from None
    if found != kind:
        raise error
    return place, name
