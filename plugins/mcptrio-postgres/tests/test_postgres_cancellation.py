"""Cancellation, deadlines, locks, limits of connections, and a server that stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
import trio

from mcptrio import Secret

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) AS i"
SLEEP = "SELECT pg_sleep(600)"
IS_RUNNING = "state = 'active' AND backend_type = 'client backend'"


async def until(condition: Callable[[], Any]) -> None:
    with trio.fail_after(30):
        while not await trio.to_thread.run_sync(condition):  # noqa: ASYNC110 - a session of the server sets no event
            await trio.sleep(0.02)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("tool", "query"),
    [
        ("read_query", ENDLESS),
        ("read_query", SLEEP),
        ("explain_query", SLEEP),
        ("write_query", "INSERT INTO orders(number, customer) SELECT 9, 1 FROM pg_sleep(600)"),
    ],
)
async def test_cancelled_query_ends_on_the_server(
    postgres_client: Any, shop: Any, revision: str, tool: str, query: str
) -> None:
    arguments: dict[str, Any] = {"query": query}
    if tool == "explain_query":
        arguments["analyze"] = True
    async with postgres_client(writable=("shop",), revision=revision) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, tool, arguments)
            await until(partial(shop.sessions, IS_RUNNING))
            nursery.cancel_scope.cancel()
        await until(lambda: shop.sessions(IS_RUNNING) == 0)
        assert (await client.call_tool("read_query", {"query": "SELECT 1"})).structured_content["items"] == [[1]]
    assert shop.ask("SELECT count(*) FROM orders") == [(3,)]


@pytest.mark.parametrize("tool", ["read_query", "write_query"])
async def test_query_ends_at_its_timeout(postgres_client: Any, refusal: Any, shop: Any, tool: str) -> None:
    query = SLEEP if tool == "read_query" else "INSERT INTO orders(number, customer) SELECT 9, 1 FROM pg_sleep(600)"
    async with postgres_client(writable=("shop",), query_timeout=0.5) as client:
        message = await refusal(client, tool, query=query)
        assert message.startswith("stopped after 0.5 seconds")
        assert ("nothing was changed" in message) == (tool == "write_query")
        await until(lambda: shop.sessions(IS_RUNNING) == 0)
    assert shop.ask("SELECT count(*) FROM orders") == [(3,)]


async def test_wait_of_a_query_for_a_lock_is_bounded(postgres_client: Any, refusal: Any, shop: Any) -> None:
    with psycopg.connect(shop.url) as other:
        other.execute("LOCK TABLE orders")
        async with postgres_client(query_timeout=0.5) as client:
            assert "stopped after" in await refusal(client, "read_query", query="SELECT * FROM orders")
            await until(lambda: shop.sessions("wait_event_type = 'Lock'") == 0)


async def test_connections_are_limited_and_closed(postgres_client: Any, own_shop: Any) -> None:
    async with postgres_client(own_shop, max_connections=2) as client:
        assert own_shop.sessions() == 0  # none is opened before it is needed
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(client.call_tool, "read_query", {"query": "SELECT pg_sleep(0.2)"})
            await until(lambda: own_shop.sessions(IS_RUNNING) == 2)
            assert own_shop.sessions() == 2
        assert own_shop.sessions("state = 'idle'") == 2
    await until(lambda: own_shop.sessions() == 0)


async def test_calls_wait_for_a_connection_until_their_deadline(postgres_client: Any, call: Any, refusal: Any) -> None:
    async with postgres_client(max_connections=1, query_timeout=1) as client, trio.open_nursery() as nursery:
        nursery.start_soon(partial(refusal, client, "read_query", query=SLEEP))
        nursery.start_soon(partial(refusal, client, "read_query", query=SLEEP))


async def test_server_restarts(own_postgres: Any, postgres_client: Any, call: Any, refusal: Any) -> None:
    async with postgres_client(databases={"shop": Secret(own_postgres.url)}) as client:
        assert (await call(client, "read_query", query="SELECT 1"))["items"] == [[1]]
        own_postgres.kill()
        message = await refusal(client, "read_query", query="SELECT 1")
        assert message.startswith("the database shop: ")
        await trio.to_thread.run_sync(own_postgres.start)
        assert (await call(client, "read_query", query="SELECT 1"))["items"] == [[1]]
        own_postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ 'mcptrio-p'")
        assert (await call(client, "read_query", query="SELECT 1"))["items"] == [[1]]


async def test_server_that_does_not_answer(own_postgres: Any, postgres_client: Any, call: Any, refusal: Any) -> None:
    async with postgres_client(databases={"shop": Secret(own_postgres.url)}, query_timeout=0.5) as client:
        assert (await call(client, "read_query", query="SELECT 1"))["items"] == [[1]]
        with own_postgres.stalled():
            assert "stopped after 0.5 seconds" in await refusal(client, "read_query", query="SELECT 1")
        assert threading.active_count() < 50
