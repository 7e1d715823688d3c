"""A server whose worker is replaced when a file changes, while its clients stay connected: ``mcptrio dev``."""

from __future__ import annotations

__all__: list[str] = []
