"""Machines of each platform, in a folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcptrio.cli.install.machine import Machine

__all__: list[str] = []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Linux machine without any host application."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    return Machine(platform="linux", home=tmp_path / "home", project=tmp_path / "project")
