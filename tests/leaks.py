"""The fixture by which every test is checked for leaks. The check itself is the testing kit's.

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
    """Fail the test that leaves something behind."""
    with testing.nothing_left(grace=GRACE):
        yield
