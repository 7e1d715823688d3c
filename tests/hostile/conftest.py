"""One server process for each file and engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.engines import ENGINES, Engine
from tests.hostile.serving import HostileServer, hostile_server


@pytest.fixture(scope="module", params=ENGINES, ids=[engine.name for engine in ENGINES])
def engine(request: pytest.FixtureRequest) -> Engine:
    engine: Engine = request.param
    return engine


@pytest.fixture(scope="module")
def server(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileServer]:
    """At its end it must have closed everything, and stop when it is told to, without a complaint."""
    with hostile_server(engine, tmp_path_factory.mktemp(engine.name)) as server:
        yield server
