"""DPoP proofs over several replicas: the stores of the server remember them.

While the stores fail, no proof is accepted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, evolve

from mcptrio import Server
from mcptrio.abc import ReplayStore, Stores
from mcptrio.auth import ResourceServer
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.errors import Overloaded, StoreFailed
from mcptrio.http.server.app import HTTPApp
from mcptrio.serve.http_options import make_http_app
from mcptrio.serving import HTTPOptions
from mcptrio.stores import memory_stores, open_sqlite_stores
from tests.auth.server_parts import RESOURCE, Clock
from tests.auth.test_resource_dpop import BOUND, KEY, proven, refusal, server
from tests.runtime.asgi import post
from tests.runtime.peers import envelope

__all__: list[str] = []


@define
class Faulty:
    """A replay store that fails while ``is_away``."""

    replays: ReplayStore
    is_away: bool = False
    asked: int = 0

    async def use(self, name: str, seconds: float) -> bool:
        self.asked += 1
        if self.is_away:
            raise StoreFailed("the store is away")
        return await self.replays.use(name, seconds)


def faulty() -> tuple[Stores, Faulty]:
    stores = memory_stores()
    assert stores.replays is not None
    replays = Faulty(stores.replays)
    return evolve(stores, replays=replays), replays


def replicas(clock: Clock, stores: Stores) -> list[ResourceServer]:
    found = [server(clock) for _ in range(2)]
    for each in found:
        each.use_stores(stores)
    return found


async def test_proof_is_accepted_once_by_all_replicas() -> None:
    clock = Clock()
    stores, replays = faulty()
    one, two = replicas(clock, stores)
    head = proven(clock)
    assert await one.admit(head) == BOUND
    status, scheme, parameters = await refusal(two, head)
    assert (status, scheme, parameters["error"]) == (401, "dpop", "invalid_dpop_proof")
    assert await two.admit(proven(clock)) == BOUND
    # A process that has accepted a proof refuses it without a store request.
    assert replays.asked == 3
    await refusal(one, head)
    await refusal(two, head)
    assert replays.asked == 3


async def test_invalid_proofs_are_not_remembered() -> None:
    clock = Clock()
    stores, replays = faulty()
    one, _ = replicas(clock, stores)
    await refusal(one, proven(clock, method="GET"))
    assert replays.asked == 0


async def test_proofs_are_refused_while_the_store_fails() -> None:
    clock = Clock()
    stores, replays = faulty()
    one, two = replicas(clock, stores)
    replays.is_away = True
    head = proven(clock)
    with pytest.raises(Overloaded, match="cannot be checked now") as refused:
        await one.admit(head)
    assert refused.value.retry_after == 1.0
    replays.is_away = False
    # This process remembers the failed attempt. The client makes a new proof for each request.
    assert (await refusal(one, head))[0] == 401
    assert await one.admit(proven(clock)) == BOUND
    assert await two.admit(proven(clock)) == BOUND


async def test_proof_is_remembered_while_a_replica_with_another_clock_would_accept_it(mock_clock: Any) -> None:
    """The clocks of replicas differ by some seconds."""
    clock, late = Clock(), Clock()
    stores = memory_stores()
    one, two = server(clock), server(late)
    for each in (one, two):
        each.use_stores(stores)
    head = proven(clock)
    assert await one.admit(head) == BOUND
    mock_clock.jump(320)
    late.now += 299
    assert (await refusal(two, head))[2]["error"] == "invalid_dpop_proof"


async def test_proof_is_remembered_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    head = proven(clock)
    for is_new in (True, False):
        async with open_sqlite_stores(tmp_path / "shared.db") as stores:
            guard = server(clock)
            guard.use_stores(stores)
            if is_new:
                assert await guard.admit(head) == BOUND
            else:
                await refusal(guard, head)


@asynccontextmanager
async def endpoints(clock: Clock, stores: Stores | None) -> AsyncIterator[list[HTTPApp]]:
    servers = [Server() for _ in range(2)]
    for served in servers:
        if stores is not None:
            served.use_stores(stores)
    async with servers[0].open(), servers[1].open(), trio.open_nursery() as nursery:
        apps = [make_http_app(served, HTTPOptions(auth=server(clock))) for served in servers]
        for app in apps:
            await nursery.start(app.run)
        yield apps
        nursery.cancel_scope.cancel()


async def ask(app: HTTPApp, proof: str) -> tuple[int, Mapping[str, str]]:
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": envelope()}}
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "server/discover"}
    reply = await post(app, message, authorization="DPoP bound", dpop=proof, **headers)
    return reply.status, reply.headers


async def test_guard_of_an_endpoint_uses_the_stores_of_its_server() -> None:
    clock = Clock()
    prover = DPoPSigner(KEY, clock=clock)
    stores, replays = faulty()
    async with endpoints(clock, stores) as [one, two]:
        proof = prover.prove("POST", RESOURCE, token="bound")
        assert (await ask(one, proof))[0] == 200
        assert (await ask(two, proof))[0] == 401
        replays.is_away = True
        status, headers = await ask(two, prover.prove("POST", RESOURCE, token="bound"))
        assert (status, headers["retry-after"]) == (503, "1")


async def test_proof_is_accepted_once_per_process_without_stores() -> None:
    clock = Clock()
    async with endpoints(clock, None) as [one, two]:
        proof = DPoPSigner(KEY, clock=clock).prove("POST", RESOURCE, token="bound")
        assert [(await ask(app, proof))[0] for app in (one, two, one)] == [200, 200, 401]
