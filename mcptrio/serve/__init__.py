"""Serves a server: one module per transport, worker processes, and the configuration of a server process."""

from __future__ import annotations

__all__: list[str] = []
