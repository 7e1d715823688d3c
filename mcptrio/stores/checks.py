"""The findings of ``mcptrio store check`` about an engine."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Check"]


@frozen
class Check:
    """One finding.

    Args:
        name: The property that was checked.
        is_ok: True if the engine is suitable in this respect.
        found: The finding, as text for an operator.
        advice: What the operator should do if ``is_ok`` is False.
    """

    name: str
    is_ok: bool
    found: str
    advice: str = ""
