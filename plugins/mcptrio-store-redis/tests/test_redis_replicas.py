"""Two replicas that share a Redis, as every engine has to serve them."""

from __future__ import annotations

import pytest

from mcptrio.abc import INBOX_MESSAGE, session_topic, wake_message
from mcptrio.stores import MemoryBus, StoreSettings, open_stores
from tests.engines.redis_server import RedisServer
from tests.stores.shared_contract import *  # noqa: F403 - these are the tests
from tests.stores.shared_contract import Replica

from .conftest import opened

__all__: list[str] = []


@pytest.fixture
def replica(redis: RedisServer, prefix: str) -> Replica:
    """Opens the stores of one more replica on the same data."""
    return lambda: opened(redis, prefix)


async def test_another_bus_carries_the_messages(redis: RedisServer, prefix: str) -> None:
    bus, settings = MemoryBus(), StoreSettings(prefix=prefix)
    async with open_stores(redis.url, settings, bus=bus) as two:
        assert two.bus is bus
        received: list[bytes | None] = []
        bus.follow(session_topic("s"), received.append)
        async with open_stores(redis.url, settings, bus=bus) as one:
            await one.events.append("s", "x", b"1", will=b"gone")
            await one.events.put("s", b"1")
        assert received == [wake_message("x"), INBOX_MESSAGE, wake_message("x")]
        assert (await two.events.read("s", "x", 0))[1]
