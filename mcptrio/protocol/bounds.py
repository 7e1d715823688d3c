"""Default bounds that the settings and the queues share. It imports nothing, so that reading settings stays cheap."""

from __future__ import annotations

from typing import Final

__all__ = ["MAX_QUEUED_BYTES"]

MAX_QUEUED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of JSON that may be queued for one peer. A single larger message is still sent."""
