"""Tasks in PostgreSQL against the contracts that they have in every store, and against the model."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from mcptrio_store_postgres import tools

from mcptrio.stores import StoreSettings
from tests.engines.postgres_fixtures import new_prefix
from tests.engines.postgres_server import PostgresServer
from tests.stores import shared_tasks_contract, tasks_expiry_contract
from tests.stores.concurrent_checks import contract_of, run_concurrently
from tests.stores.contract import StoreTime
from tests.stores.shared_tasks_contract import SharedTasks
from tests.stores.tasks_contract import *  # noqa: F403 - these are the tests
from tests.stores.tasks_contract import TasksOpener
from tests.stores.tasks_model import TASK_BOUNDS, TASK_STEPS, TasksModel, TaskStep, play_tasks

from .conftest import opened

__all__: list[str] = []

LEASE = 1.5


@pytest.fixture
def tasks_opener(postgres: PostgresServer, prefix: str) -> TasksOpener:
    return partial(opened, postgres, prefix)


async def test_expiry(postgres: PostgresServer, store_time: StoreTime, subtests: pytest.Subtests) -> None:
    contract = contract_of(tasks_expiry_contract)
    checks = {
        name: partial(holds, partial(opened, postgres, new_prefix()), store_time) for name, holds in contract.items()
    }
    await run_concurrently(checks, subtests)


async def test_shared_tasks(postgres: PostgresServer, subtests: pytest.Subtests) -> None:
    async def hold(holds: Callable[[SharedTasks], Awaitable[None]]) -> None:
        own = {"prefix": new_prefix(), "lease": LEASE, "start_timeout": 10.0}
        await tools.migrate(postgres.url, StoreSettings(**own))
        # A lease may be new when its replica ends, and another one notices between two of its own renewals.
        await holds(SharedTasks(postgres.url, own, takeover=LEASE * 8 / 3 + 1))

    contract = contract_of(shared_tasks_contract)
    await run_concurrently({name: partial(hold, holds) for name, holds in contract.items()}, subtests)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=TASK_STEPS)
def test_tasks_match_the_model(postgres: PostgresServer, steps: list[TaskStep]) -> None:
    prefix = f"m{secrets.token_hex(4)}"
    open_stores = partial(opened, postgres, prefix, **TASK_BOUNDS)
    try:
        trio.run(partial(play_tasks, steps, TasksModel(expires=False), open_stores, can_reopen=True))
    finally:
        postgres.run(f"DROP SCHEMA IF EXISTS {prefix} CASCADE")
