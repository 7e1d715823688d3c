"""Counts the bytes that servers in this process exchange with clients, for metrics.

The sockets of HTTP and the pipes add to it. Attributes and no methods, because each message passes here.
"""

from __future__ import annotations

from attrs import define

__all__ = ["TRAFFIC"]


@define
class _Traffic:
    received: int = 0
    sent: int = 0


TRAFFIC = _Traffic()
