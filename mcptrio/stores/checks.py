"""What ``mcptrio store check`` reports about an engine."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Check"]


@frozen
class Check:
    """One thing that was checked.

    Args:
        name: The thing that was checked.
        is_ok: Whether it is as it should be.
        found: The finding, in words for an operator.
        advice: The thing to do if it is not in order.
    """

    name: str
    is_ok: bool
    found: str
    advice: str = ""
