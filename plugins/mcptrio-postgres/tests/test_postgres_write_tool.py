"""The writing tool."""

from __future__ import annotations

from typing import Any

import pytest

from mcptrio import Secret


async def test_it_is_offered_only_for_a_writable_database(postgres_client: Any, refusal: Any) -> None:
    async with postgres_client() as client:
        assert "write_query" not in [tool.name async for tool in client.tools()]
    async with postgres_client(writable=("*",)) as client:
        [tool] = [tool async for tool in client.tools() if tool.name == "write_query"]
        assert tool.annotations.destructive_hint


async def test_rows_are_changed(postgres_client: Any, text: Any, own_shop: Any) -> None:
    async with postgres_client(own_shop, writable=("shop",)) as client:
        query = "INSERT INTO customers(name, tags) VALUES ($1, $2) RETURNING id, tags"
        assert await text(client, "write_query", query=query, params=["Dan", ["x", "y z"]]) == (
            'INSERT: 1 rows\nid|tags\n4|{x,"y z"}'
        )
        assert await text(client, "write_query", query="UPDATE orders SET sum = sum + 1") == "UPDATE: 3 rows"
        query = "WITH gone AS (DELETE FROM orders WHERE number = 3 RETURNING *) SELECT number FROM gone"
        assert await text(client, "write_query", query=query) == "SELECT: 1 rows\nnumber\n3"
    assert own_shop.ask("SELECT count(*), max(sum) FROM orders") == [(2, 201)]
    assert own_shop.ask("SELECT tags FROM customers WHERE name = 'Dan'") == [(["x", "y z"],)]


async def test_dry_run_changes_nothing(postgres_client: Any, text: Any, own_shop: Any) -> None:
    async with postgres_client(own_shop, writable=("shop",)) as client:
        found = await text(client, "write_query", query="DELETE FROM customers RETURNING id", dry_run=True, limit=2)
    assert found == "DELETE: 3 rows, rolled back\nid\n1\n2\n[more rows were changed than are shown]"
    assert own_shop.ask("SELECT count(*) FROM orders") == [(3,)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("DROP TABLE orders", "the setting schema_changes allows"),
        ("SELECT 1", "expected INSERT, UPDATE, DELETE, MERGE or WITH, got SELECT"),
        ("COMMIT", "got COMMIT"),
        ("DELETE FROM orders; COMMIT", "got several"),
        ("INSERT INTO orders VALUES (1, 1)", "Key (number)=(1) already exists"),
        ("UPDATE orders SET sum = -1", "violates check constraint"),
        ("INSERT INTO orders(number, customer) VALUES (9, 99)", "is not present in table"),
        ("DELETE FROM ordrs", "did you mean `public.orders`?"),
    ],
)
async def test_refused_statements_change_nothing(
    postgres_client: Any, refusal: Any, shop: Any, query: str, message: str
) -> None:
    async with postgres_client(writable=("shop",)) as client:
        assert message in await refusal(client, "write_query", query=query)
    assert shop.ask("SELECT count(*), max(sum) FROM orders") == [(3, 300)]


async def test_error_at_commit_is_reported(postgres_client: Any, refusal: Any, own_shop: Any) -> None:
    own_shop.ask("ALTER TABLE orders ALTER CONSTRAINT orders_customer_fkey DEFERRABLE INITIALLY DEFERRED")
    async with postgres_client(own_shop, writable=("shop",)) as client:
        query = "INSERT INTO orders(number, customer) VALUES (9, 99)"
        assert "is not present in table" in await refusal(client, "write_query", query=query)
    assert own_shop.ask("SELECT count(*) FROM orders") == [(3,)]


async def test_schema_changes(postgres_client: Any, text: Any, refusal: Any, own_shop: Any) -> None:
    async with postgres_client(own_shop, writable=("shop",), schema_changes=True) as client:
        await text(client, "write_query", query="CREATE TABLE fresh(a int)")
        assert await text(client, "write_query", query="DROP TABLE orders CASCADE", dry_run=True) == (
            "DROP TABLE, rolled back"
        )
        assert "schema fresh" not in await text(client, "list_tables", query="fresh")
    assert own_shop.ask("SELECT count(*) FROM fresh") == [(0,)]
    assert own_shop.ask("SELECT count(*) FROM orders") == [(3,)]


async def test_other_databases_stay_read_only(postgres_client: Any, refusal: Any, shop: Any) -> None:
    databases = {"shop": Secret(shop.url), "other": Secret(shop.url)}
    async with postgres_client(databases=databases, writable=("other",)) as client:
        message = await refusal(client, "write_query", query="DELETE FROM orders", database="shop")
        assert message.startswith("the database shop is read-only")
        assert "one of other, shop" in await refusal(client, "write_query", query="DELETE FROM orders")
