"""A PostgreSQL server for all tests of a run, and one for tests that damage it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import asdict
from mcptrio_store_postgres import tools

from mcptrio.abc import Stores
from mcptrio.stores import StoreSettings, open_stores
from tests.stores.contract import Opener, Passing
from tests.stores.shared_contract import Replica

from .postgres_server import PostgresServer, data_folder, server_at

__all__: list[str] = []


class RealTime:
    """The engine's clock cannot be turned, so bounds are short and tests wait."""

    bound = 1.5

    async def advance(self, seconds: float) -> None:
        await trio.sleep(seconds)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    with data_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgres(cluster: Path) -> Iterator[PostgresServer]:
    with data_folder(cluster) as folder, server_at(folder) as server:
        yield server


@pytest.fixture
def own_postgres(cluster: Path) -> Iterator[PostgresServer]:
    """A server that the test may stop, stall and kill."""
    with data_folder(cluster) as folder, server_at(folder) as server:
        yield server


@pytest.fixture
def prefix() -> str:
    """The schema of this test."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture
def passing() -> Passing:
    return RealTime()


@pytest.fixture
def opener(postgres: PostgresServer, prefix: str) -> Opener:
    """Opens the stores with some bounds."""
    return lambda bounds: opened(postgres, prefix, **asdict(bounds))


@pytest.fixture
def replica(postgres: PostgresServer, prefix: str) -> Replica:
    """Opens the stores of one more replica."""
    return partial(opened, postgres, prefix)


@asynccontextmanager
async def opened(server: PostgresServer, prefix: str, **settings: Any) -> AsyncIterator[Stores]:
    """Open the stores of a replica with settings that suit a test, in a schema that is made if it is missing."""
    own = StoreSettings(prefix=prefix, **{"lease": 2.0, "start_timeout": 10.0, **settings})
    if not server.run("SELECT FROM pg_namespace WHERE nspname = %s", prefix):
        await tools.migrate(server.url, own)
    async with open_stores(server.url, own) as stores:
        yield stores
