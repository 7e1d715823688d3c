"""Fixtures for every test below this directory."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.leaks import adopt_orphans, nothing_left

__all__ = ["nothing_left", "own_options"]

adopt_orphans()

# For a night: `pytest --hypothesis-profile=long tests/fuzz`. Otherwise each property is tried a hundred times.
settings.register_profile("long", max_examples=50_000, deadline=None)


@pytest.fixture(scope="session", autouse=True)
def own_options() -> None:
    """What was asked of this run is not asked of those that tests start."""
    os.environ.pop("PYTEST_ADDOPTS", None)
