"""Fixtures for the tests of every first-party plugin."""

from __future__ import annotations

from tests.leaks import adopt_orphans, nothing_left

__all__ = ["nothing_left"]

adopt_orphans()
