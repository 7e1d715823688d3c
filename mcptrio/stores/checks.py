"""What ``mcptrio store check`` reports about an engine."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Check"]


@frozen
class Check:
    """One thing that was checked.

    Args:
        name: What was checked.
        is_ok: Whether it is as it should be.
        found: What was found, in words for an operator.
        advice: What to do if it is not.
    """

    name: str
    is_ok: bool
    found: str
    advice: str = ""
