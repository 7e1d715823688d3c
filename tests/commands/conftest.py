"""A process that forks for each run of a command, unless a test needs a new Python process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands import processes
from tests.commands.warm import warm

__all__: list[str] = []


@pytest.fixture(scope="session", autouse=True)
def runs_are_warm() -> Iterator[None]:
    """Start the process before the first test, so that the leak check of a test does not count it."""
    with warm() as process:
        processes.WARM.append(process)
        yield
        processes.WARM.remove(process)
