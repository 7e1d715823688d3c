"""Serving a server: one module for each way in, and the process around them."""

from __future__ import annotations

__all__: list[str] = []
