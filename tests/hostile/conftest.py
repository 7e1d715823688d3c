"""One server process for each file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.serving import HostileServer, hostile_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileServer]:
    """Yield a server. At its end it must have closed everything, stop at SIGTERM, and have logged no complaint."""
    with hostile_server(tmp_path_factory.mktemp("hostile")) as server:
        yield server
