"""One process that is warm for all the runs of commands that need no start from nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.commands import processes
from tests.commands.warm import warm

__all__: list[str] = []


@pytest.fixture(scope="session", autouse=True)
def runs_are_warm() -> Iterator[None]:
    """There before the first test: it is no leak of theirs."""
    with warm() as process:
        processes.WARM.append(process)
        yield
        processes.WARM.remove(process)
