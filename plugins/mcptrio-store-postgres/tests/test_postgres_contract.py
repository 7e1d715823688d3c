"""The stores in PostgreSQL against the contract of every store, of shared stores, and against the model."""

from __future__ import annotations

import secrets
from functools import partial

import pytest
import trio
from hypothesis import HealthCheck, given, settings

from mcptrio.stores import StoreBounds
from tests.engines.postgres_fixtures import new_prefix
from tests.engines.postgres_server import PostgresServer
from tests.stores import expiry_contract
from tests.stores.concurrent_checks import contract_of, run_concurrently
from tests.stores.contract import *  # noqa: F403 - these are the tests
from tests.stores.contract import StoreTime
from tests.stores.model import STEPS, Model, Step, play

from .conftest import opened, opener_at

__all__: list[str] = []

# The engine limits all bytes itself.
BOUNDS = StoreBounds(stream_events=4, session_bytes=1500, total_bytes=10**12)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_store_matches_the_model(postgres: PostgresServer, steps: list[Step]) -> None:
    prefix = f"m{secrets.token_hex(4)}"
    bounds = {"stream_events": BOUNDS.stream_events, "session_bytes": BOUNDS.session_bytes}
    try:
        trio.run(lambda: play(steps, Model(bounds=BOUNDS), lambda: opened(postgres, prefix, **bounds), can_reopen=True))
    finally:
        postgres.run(f"DROP SCHEMA IF EXISTS {prefix} CASCADE")


async def test_expiry(postgres: PostgresServer, store_time: StoreTime, subtests: pytest.Subtests) -> None:
    contract = contract_of(expiry_contract)
    checks = {name: partial(holds, opener_at(postgres, new_prefix()), store_time) for name, holds in contract.items()}
    await run_concurrently(checks, subtests)
