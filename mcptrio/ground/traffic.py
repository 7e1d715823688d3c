"""Counts the bytes that servers in this process exchange with clients, for metrics.

The HTTP sockets and the pipes add to the counters directly, because a method call for each message costs too much.
"""

from __future__ import annotations

from attrs import define

__all__ = ["TRAFFIC"]


@define
class _Traffic:
    received: int = 0
    sent: int = 0


TRAFFIC = _Traffic()
