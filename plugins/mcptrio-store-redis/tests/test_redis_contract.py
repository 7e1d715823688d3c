"""The stores in Redis against the contract of every store, and against the model."""

from __future__ import annotations

import secrets
from functools import partial

import pytest
import trio
from hypothesis import given, settings

from mcptrio.stores import StoreBounds
from tests.engines.redis_server import RedisServer
from tests.stores import expiry_contract
from tests.stores.concurrent_checks import contract_of, run_concurrently
from tests.stores.contract import *  # noqa: F403 - these are the tests
from tests.stores.contract import StoreTime
from tests.stores.model import STEPS, Model, Step, play

from .conftest import new_prefix, opened, opener_at

__all__: list[str] = []

# The engine limits all bytes itself.
BOUNDS = StoreBounds(stream_events=4, session_bytes=1500, event_timeout=1e6)
ENDLESS = StoreBounds(stream_events=4, session_bytes=1500, total_bytes=10**12)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_store_matches_the_model(redis: RedisServer, steps: list[Step]) -> None:
    prefix = f"m{secrets.token_hex(4)}"

    async def run() -> None:
        bounds = {"stream_events": BOUNDS.stream_events, "session_bytes": BOUNDS.session_bytes}
        await play(steps, Model(bounds=ENDLESS), lambda: opened(redis, prefix, **bounds), can_reopen=True)

    trio.run(run)


async def test_expiry(redis: RedisServer, store_time: StoreTime, subtests: pytest.Subtests) -> None:
    contract = contract_of(expiry_contract)
    checks = {name: partial(holds, opener_at(redis, new_prefix()), store_time) for name, holds in contract.items()}
    await run_concurrently(checks, subtests)
