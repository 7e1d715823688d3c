"""Serving a server: one module per transport, and the processes around them."""

from __future__ import annotations

__all__: list[str] = []
