"""The name under which our engine puts its exchange into the extensions of an ASGI scope."""

from __future__ import annotations

from typing import Final

__all__ = ["EXTENSION"]

EXTENSION: Final = "mcptrio.exchange"
