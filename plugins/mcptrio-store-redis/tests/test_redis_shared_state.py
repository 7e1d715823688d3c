"""Effects, used names and quotas in Redis against the contract that they have in every store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.engines.redis_server import RedisServer
from tests.stores import shared_state_contract as contract
from tests.stores.shared_state_contract import StoresOpener

from .conftest import opened

__all__: list[str] = []


@pytest.mark.parametrize(
    "holds",
    [
        contract.an_effect_is_claimed_once,
        contract.effects_claimed_at_once_have_one_claim,
        contract.a_claim_of_an_ended_process_is_lost,
        contract.a_result_of_an_engine_is_kept_for_as_long_as_it_is_asked_to,
        contract.a_name_is_used_once,
        contract.a_name_used_at_once_is_used_once,
        contract.a_quota_taken_at_once_has_its_burst,
        contract.one_costly_request_takes_as_many_cheap_ones,
        contract.state_survives_a_restart,
    ],
)
async def test_contract(holds: Callable[[StoresOpener], Awaitable[None]], redis: RedisServer, prefix: str) -> None:
    await holds(partial(opened, redis, prefix))
