"""Packages are made by a command, which needs no start from nothing."""

from __future__ import annotations

from tests.commands.conftest import runs_are_warm

__all__ = ["runs_are_warm"]
