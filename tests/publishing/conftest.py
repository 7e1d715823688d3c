"""Packages are built by a command that needs no cold start."""

from __future__ import annotations

from tests.commands.conftest import runs_are_warm

__all__ = ["runs_are_warm"]
