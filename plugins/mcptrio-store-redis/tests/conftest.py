"""A Redis server for all tests of a run, and one for tests that damage it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import asdict

from mcptrio.abc import Stores
from mcptrio.stores import StoreBounds, StoreSettings, open_stores
from tests.engines.redis_server import PROGRAMS, RedisServer
from tests.stores.contract import Opener, StoreTime

from .topologies import Place, clustered

__all__: list[str] = []

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


class RealTime:
    """The engine's clock cannot be turned, so bounds are short and tests wait."""

    bound = 1.5

    async def advance(self, seconds: float) -> None:
        await trio.sleep(seconds)


@pytest.fixture(scope="session", params=PROGRAMS)
def redis(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), program=request.param) as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[RedisServer], Place]]:
    """A cluster that no test damages."""
    with clustered(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may stop, stall and fill. It keeps its data."""
    with RedisServer(tmp_path / "redis", *DURABLE) as server:
        yield server


def new_prefix() -> str:
    """Return the beginning of keys that no other test has."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture
def prefix() -> str:
    """Keys of this test."""
    return new_prefix()


@pytest.fixture
def store_time() -> StoreTime:
    return RealTime()


@pytest.fixture
def opener(redis: RedisServer, prefix: str) -> Opener:
    """Opens the stores with some bounds."""
    return opener_at(redis, prefix)


def opener_at(server: RedisServer, prefix: str) -> Opener:
    return lambda bounds: opened(server, prefix, **asdict(bounds))


@asynccontextmanager
async def opened(server: RedisServer, prefix: str, **settings: Any) -> AsyncIterator[Stores]:
    """Open the stores of a replica with settings that suit a test."""
    plain = {"lease": 2.0, "start_timeout": 10.0, **asdict(StoreBounds()), **settings}
    async with open_stores(server.url, StoreSettings(prefix=prefix, **plain)) as stores:
        yield stores
