"""A PostgreSQL server for all tests of a run, and the stores in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import asdict
from mcptrio_store_postgres import tools

from mcptrio.abc import Stores
from mcptrio.stores import StoreSettings, open_stores
from tests.engines.postgres_fixtures import cluster, postgres, prefix
from tests.engines.postgres_server import PostgresServer
from tests.stores.contract import Opener, StoreTime
from tests.stores.shared_contract import Replica

__all__ = ["cluster", "postgres", "prefix"]


class RealTime:
    """The engine's clock cannot be turned, so bounds are short and tests wait."""

    bound = 1.5

    async def advance(self, seconds: float) -> None:
        await trio.sleep(seconds)


@pytest.fixture
def store_time() -> StoreTime:
    return RealTime()


@pytest.fixture
def opener(postgres: PostgresServer, prefix: str) -> Opener:
    """Opens the stores with some bounds."""
    return opener_at(postgres, prefix)


def opener_at(server: PostgresServer, prefix: str) -> Opener:
    return lambda bounds: opened(server, prefix, **asdict(bounds))


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
