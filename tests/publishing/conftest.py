"""The fixture with which these tests run ``mcptrio`` in forks of one process; see tests/commands/warm.py."""

from __future__ import annotations

from tests.commands.conftest import runs_are_warm

__all__ = ["runs_are_warm"]
