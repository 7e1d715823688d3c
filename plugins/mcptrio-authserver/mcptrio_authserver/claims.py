"""Types of claims."""

from __future__ import annotations

from typing import TypeGuard

__all__ = ["is_number"]


def is_number(value: object) -> TypeGuard[int | float]:
    """Return True if a claim is a number."""
    # bool is a subclass of int in Python.
    return isinstance(value, int | float) and not isinstance(value, bool)
