"""The fixture that checks every test for leaks. The check itself is part of the testing kit.

Imported by tests/conftest.py and plugins/conftest.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcptrio import testing
from mcptrio.testing import adopt_orphans

__all__ = ["adopt_orphans", "nothing_left"]

GRACE = 30.0
"""Seconds; only a failing test waits this long."""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fail a test that leaves tasks, processes or open resources behind."""
    with testing.nothing_left(grace=GRACE):
        yield
