"""Forbidden statements are refused and have no effect."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

REFUSED_TO_READERS = [
    "DELETE FROM orders",
    "WITH q AS (SELECT 1) DELETE FROM orders",
    "/* SELECT */ UPDATE orders SET sum = 0",
    "INSERT INTO orders VALUES (9, 1, 1) RETURNING *",
    "REPLACE INTO orders VALUES (1, 1, 1)",
    "CREATE TABLE t(a)",
    "CREATE TEMP TABLE t(a)",
    "DROP TABLE orders",
    "ALTER TABLE orders ADD COLUMN x",
    "CREATE VIRTUAL TABLE v USING fts5(a)",
    "UPDATE sqlite_master SET sql = ''",
    "REINDEX",
    "ANALYZE",
    "VACUUM",
    "VACUUM INTO 'copy.db'",
    "ATTACH 'other.db' AS other",
    "DETACH main",
    "BEGIN",
    "COMMIT",
    "SAVEPOINT s",
    "PRAGMA user_version = 5",
    "PRAGMA journal_mode = WAL",
    "PRAGMA writable_schema = ON",
    "PRAGMA query_only = OFF",
    "PRAGMA database_list",
    "SELECT file FROM pragma_database_list",
    "PRAGMA wal_checkpoint",
    "PRAGMA optimize",
    "PRAGMA incremental_vacuum",
    "SELECT load_extension('x')",
    "SELECT fts3_tokenizer('x')",
    "INSERT INTO texts(texts) VALUES ('optimize')",
]


def contents(shop: Path) -> tuple[bytes, list[str]]:
    """Return the content of the file, and the names of files next to it."""
    return hashlib.sha256(shop.read_bytes()).digest(), sorted(path.name for path in shop.parent.iterdir())


async def test_read_tool_refuses_statements_that_write(sqlite_client: Any, refusal: Any, shop: Path) -> None:
    before = contents(shop)
    async with sqlite_client(writable=("shop",)) as client:
        for query in REFUSED_TO_READERS:
            message = await refusal(client, "read_query", query=query)
            await refusal(client, "export_csv", query=query)

            assert any(word in message for word in ("not allowed", "no such", "not authorized", "modified")), query
            assert str(shop.parent) not in message, query
            assert contents(shop) == before, query


async def test_write_tool_refuses_schema_changes(sqlite_client: Any, refusal: Any, shop: Path, rows_in: Any) -> None:
    queries = (
        "DROP TABLE orders",
        "ALTER TABLE orders ADD COLUMN x",
        "CREATE INDEX i ON orders(sum)",
        "CREATE TABLE t(a)",
        "ATTACH 'other.db' AS other",
        "VACUUM",
        "COMMIT",
        "PRAGMA user_version = 5",
        "UPDATE sqlite_master SET sql = ''",
        "DELETE FROM sqlite_master",
        "SELECT 1",
        "CREATE TEMP TABLE t(a)",
    )
    before = rows_in("SELECT type, name, sql FROM sqlite_master")
    async with sqlite_client(writable=("shop",)) as client:
        for query in queries:
            await refusal(client, "write_query", query=query)

            assert rows_in("SELECT type, name, sql FROM sqlite_master") == before, query
            assert [path.name for path in shop.parent.iterdir()] == [shop.name], query


async def test_create_table_refuses_other_statements(sqlite_client: Any, refusal: Any, rows_in: Any) -> None:
    queries = (
        "INSERT INTO orders VALUES (9, 1, 1)",
        "CREATE INDEX i ON orders(sum)",
        "CREATE VIEW v AS SELECT 1",
        "SELECT 1",
        "DROP TABLE orders",
        "CREATE TEMP TABLE t(a)",
        "-- nothing",
    )
    before = rows_in("SELECT name FROM sqlite_master")
    async with sqlite_client(writable=("shop",)) as client:
        for query in queries:
            await refusal(client, "create_table", query=query)

            assert rows_in("SELECT name FROM sqlite_master") == before, query
            assert rows_in("SELECT count(*) FROM orders") == [(3,)], query


async def test_write_to_a_read_only_database_is_refused(
    sqlite_client: Any, call: Any, refusal: Any, shop: Path, tmp_path: Path
) -> None:
    databases = {"shop": shop, "new": tmp_path / "new.db"}
    async with sqlite_client(databases=databases, writable=("new",)) as client:
        message = await refusal(client, "write_query", query="DELETE FROM orders", database="shop")
        assert message == "the database shop is read-only; the setting writable lists the databases that accept changes"
        await refusal(client, "create_table", query="CREATE TABLE t(a)", database="shop")
        assert "first write creates it" in await refusal(client, "list_tables", database="new")
        made = await call(client, "create_table", query="CREATE TABLE t(a)", database="new")
        assert made["created"]
    assert (tmp_path / "new.db").exists()


@pytest.mark.parametrize("deny", ["texts", "texts.body"])
async def test_shadow_tables_of_a_denied_virtual_table_are_denied(
    sqlite_client: Any, call: Any, refusal: Any, deny: str
) -> None:
    async with sqlite_client(deny=(deny,)) as client:
        for query in ("SELECT body FROM texts", "SELECT * FROM texts_content", "SELECT block FROM Texts_Data"):
            assert "not allowed: reading" in await refusal(client, "read_query", query=query)
        assert (await call(client, "read_query", query="SELECT count(*) FROM places_node"))["items"] == [[1]]


async def test_denied_tables_and_columns_are_neither_read_nor_written(
    sqlite_client: Any, call: Any, refusal: Any, rows_in: Any
) -> None:
    settings: dict[str, Any] = {"deny": ("customers.pass*", "ORDERS"), "writable": ("*",), "schema_changes": True}
    async with sqlite_client(**settings) as client:
        for query in (
            "SELECT password FROM customers",
            "SELECT * FROM customers",
            "SELECT c.id FROM customers c WHERE c.PASSWORD > 'a'",
            "SELECT count(*) FROM orders",
            "SELECT * FROM big",
        ):
            assert "not allowed: reading" in await refusal(client, "read_query", query=query)
        for query in (
            "UPDATE customers SET password = ''",
            "DELETE FROM orders",
            "INSERT INTO customers(name) SELECT password FROM customers",
            "INSERT INTO customers(name) VALUES ('x') RETURNING password",
            "DROP TABLE orders",
            "CREATE TRIGGER t AFTER INSERT ON orders BEGIN SELECT 1; END",
            "ALTER TABLE orders RENAME TO others",
        ):
            assert "not allowed" in await refusal(client, "write_query", query=query)
        assert (await call(client, "read_query", query="SELECT id, name FROM customers"))["items"][0] == [1, "Ada"]
        assert "orders" not in {each["name"] for each in (await call(client, "list_tables"))["items"]}
        assert "no such table" in await refusal(client, "describe_table", table_name="orders")
        assert "orders" not in await refusal(client, "read_query", query="SELECT * FROM nothing")

    assert rows_in("SELECT count(*) FROM orders") == [(3,)]


@pytest.mark.parametrize(
    "query",
    [
        "ALTER TABLE customers RENAME COLUMN password TO p",
        "ALTER TABLE customers RENAME TO people",
        "ALTER TABLE customers ADD COLUMN leak TEXT GENERATED ALWAYS AS (password) VIRTUAL",
        "CREATE INDEX leak ON customers(CASE WHEN password LIKE 'x%' THEN abs(-9223372036854775808) END)",
    ],
)
async def test_denied_column_is_not_exposed_by_schema_changes(sqlite_client: Any, refusal: Any, query: str) -> None:
    async with sqlite_client(writable=("shop",), schema_changes=True, deny=("customers.password",)) as client:
        assert "not allowed" in await refusal(client, "write_query", query=query)
        assert "not allowed" in await refusal(client, "read_query", query="SELECT password FROM customers")
        # Other objects may be changed.
        result = await client.call_tool("write_query", {"query": "ALTER TABLE orders RENAME COLUMN sum TO total"})
        assert not result.is_error
