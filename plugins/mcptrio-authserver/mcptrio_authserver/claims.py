"""What a claim of a token may be.

The one rule: truth is no number, though Python has it otherwise.
"""

from __future__ import annotations

from typing import TypeGuard

__all__ = ["is_number"]


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a claim is a time."""
    return isinstance(value, int | float) and not isinstance(value, bool)
