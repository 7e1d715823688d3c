"""The tools that write, through a client."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_sqlite import Config
from mcptrio_sqlite.call_monitor import CallMonitor, CallStopped
from mcptrio_sqlite.changes import transact
from mcptrio_sqlite.connections import OpenDatabase, open_database
from mcptrio_sqlite.databases import DatabaseFile
from mcptrio_sqlite.policy import AccessMode, SQLitePolicy


async def test_changed_rows_are_reported(sqlite_client: Any, call: Any, rows_in: Any) -> None:
    async with sqlite_client(writable=("shop",)) as client:
        inserted = await call(
            client,
            "write_query",
            query="INSERT INTO orders(customer, sum) VALUES (?, ?), (3, 2) RETURNING number, sum",
            params=[3, 1.5],
        )
        updated = await call(client, "write_query", query="UPDATE orders SET sum = sum + 1 WHERE customer = 1")
        deleted = await call(client, "write_query", query="DELETE FROM customers WHERE id = 1")

    assert inserted["affected_rows"] == 2
    assert inserted["items"] == [[4, 1.5], [5, 2.0]]
    assert inserted["last_insert_rowid"] == 5
    assert inserted["total_changes"] == 4  # the trigger
    assert "customers, orders" in inserted["notes"][0]
    assert updated["affected_rows"] == 2
    assert (deleted["affected_rows"], deleted["total_changes"]) == (1, 3)  # the foreign key's cascade
    assert rows_in("SELECT number FROM orders") == [(3,), (4,), (5,)]


def test_statement_interrupted_in_its_last_step_changes_nothing(shop: Path, rows_in: Any) -> None:
    """A statement without a loop ends before SQLite checks for an interrupt."""
    database = DatabaseFile(name="shop", path=shop, is_writable=True, is_configured=True)
    monitor = CallMonitor(lambda message: None)

    def insert(opened: OpenDatabase) -> None:
        opened.execute("INSERT INTO texts(body) VALUES ('late')").close()
        monitor.stop()

    with (
        pytest.raises(CallStopped),
        open_database(database, SQLitePolicy(AccessMode.CHANGE), Config(), monitor) as opened,
    ):
        transact(opened, insert, keep=True)

    assert rows_in("SELECT count(*) FROM texts") == [(1,)]


async def test_dry_run_changes_nothing(sqlite_client: Any, call: Any, rows_in: Any) -> None:
    async with sqlite_client(writable=("shop",)) as client:
        result = await call(client, "write_query", query="DELETE FROM orders", dry_run=True)
        made = await call(client, "create_table", query="CREATE TABLE t(a)", dry_run=True)

    assert (result["affected_rows"], result["dry_run"]) == (3, True)
    assert (made["created"], made["dry_run"]) == (False, True)
    assert rows_in("SELECT count(*) FROM orders") == [(3,)]
    assert rows_in("SELECT * FROM sqlite_master WHERE name = 't'") == []


async def test_failed_statement_changes_nothing(sqlite_client: Any, refusal: Any, rows_in: Any) -> None:
    async with sqlite_client(writable=("shop",)) as client:
        message = await refusal(client, "write_query", query="INSERT INTO customers(name) VALUES ('New'), ('Ada')")
        assert message == "UNIQUE constraint failed: customers.name"
        message = await refusal(client, "write_query", query="INSERT INTO orders(customer) VALUES (99)")
        assert message == "FOREIGN KEY constraint failed"

    assert rows_in("SELECT count(*) FROM customers") == [(3,)]


async def test_returned_rows_are_limited_and_all_rows_changed(sqlite_client: Any, call: Any, rows_in: Any) -> None:
    query = """INSERT INTO customers(name) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
        SELECT 'n' || i FROM n RETURNING name"""
    async with sqlite_client(writable=("shop",)) as client:
        result = await call(client, "write_query", query=query, limit=5)

    assert (len(result["items"]), result["truncated"], result["affected_rows"]) == (5, True, 50)
    assert rows_in("SELECT count(*) FROM customers") == [(53,)]


async def test_create_table_creates_a_table(sqlite_client: Any, call: Any, refusal: Any, rows_in: Any) -> None:
    async with sqlite_client(writable=("shop",)) as client:
        statement = "CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY AUTOINCREMENT, b UNIQUE REFERENCES orders)"
        first = await call(client, "create_table", query=statement)
        again = await call(client, "create_table", query=statement)
        copied = await call(client, "create_table", query="CREATE TABLE copied AS SELECT * FROM orders WHERE sum > 20")
        assert "already exists" in await refusal(client, "create_table", query="CREATE TABLE t(a)")

    assert (first["table"], first["created"], again["created"]) == ("t", True, False)
    assert copied["sql"].startswith("CREATE TABLE copied(")
    assert rows_in("SELECT count(*) FROM copied") == [(2,)]


async def test_schema_can_be_changed_if_allowed(sqlite_client: Any, call: Any, rows_in: Any) -> None:
    async with sqlite_client(writable=("*",), schema_changes=True) as client:
        for query in (
            "ALTER TABLE orders ADD COLUMN note TEXT",
            "CREATE INDEX i ON orders(note)",
            "CREATE VIRTUAL TABLE v USING fts5(a)",
            "INSERT INTO v VALUES ('text')",
            "DROP INDEX by_sum",
            "DROP VIEW big",
            "ANALYZE",
        ):
            await call(client, "write_query", query=query)
    assert rows_in("SELECT note FROM orders LIMIT 1") == [(None,)]
    assert rows_in("SELECT a FROM v WHERE v MATCH 'text'") == [("text",)]


async def test_database_does_not_grow_over_its_size_limit(sqlite_client: Any, refusal: Any, shop: Path) -> None:
    async with sqlite_client(writable=("shop",), max_database_bytes=200_000) as client:
        query = "INSERT INTO texts(body) VALUES (hex(randomblob(200000)))"
        assert "max_database_bytes" in await refusal(client, "write_query", query=query)
    assert os.stat(shop).st_size <= 200_000


async def test_writers_wait_for_each_other(sqlite_client: Any, call: Any, rows_in: Any) -> None:
    async with sqlite_client(writable=("shop",)) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(
                    lambda: call(client, "write_query", query="UPDATE orders SET sum = sum + 1 WHERE number = 1")
                )
    assert rows_in("SELECT sum FROM orders WHERE number = 1") == [(30.5,)]


async def test_write_waits_for_the_lock_of_another_program(
    sqlite_client: Any, call: Any, refusal: Any, shop: Path
) -> None:
    with closing(sqlite3.connect(shop, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        async with sqlite_client(writable=("shop",), query_timeout=0.3) as client:
            for tool, query in (("write_query", "DELETE FROM orders"), ("read_query", "SELECT 1 FROM orders")):
                assert "stopped after 0.3 seconds" in await refusal(client, tool, query=query)
        async with sqlite_client(writable=("shop",)) as client:
            async with trio.open_nursery() as nursery:
                messages: list[Any] = []

                async def change() -> None:
                    messages.append(await call(client, "write_query", query="DELETE FROM orders"))

                nursery.start_soon(change)
                await trio.sleep(0.2)  # the change cannot complete before the other program releases the lock
                assert messages == []
                other.execute("COMMIT")
        assert messages[0]["affected_rows"] == 3


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_subscribers_are_notified_of_a_new_table(sqlite_client: Any, call: Any, revision: str) -> None:
    uris = ["sqlite://shop/schema", "sqlite://shop/t"]
    async with sqlite_client(writable=("shop",), revision=revision) as client:
        async with client.subscribe(uris) as changes:
            await call(client, "create_table", query="CREATE TABLE t(a)")
            heard = {(await anext(changes)).uri, (await anext(changes)).uri}
    assert heard == set(uris)


async def test_subscribers_are_notified_of_an_altered_table(sqlite_client: Any, call: Any) -> None:
    async with sqlite_client(writable=("shop",), schema_changes=True) as client:
        async with client.subscribe(["sqlite://shop/orders"]) as changes:
            await call(client, "write_query", query="UPDATE orders SET sum = 1")  # does not change the resource
            await call(client, "write_query", query="CREATE INDEX i ON orders(customer)")
            await call(client, "append_insight", insight="There is an index.")
            assert (await anext(changes)).uri == "sqlite://shop/orders"


async def test_database_in_wal_mode_is_read_and_written(
    sqlite_client: Any, call: Any, shop: Path, rows_in: Any
) -> None:
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    async with sqlite_client(writable=("shop",)) as client:
        assert (await call(client, "read_query", query="SELECT count(*) FROM orders"))["items"] == [[3]]
        await call(client, "write_query", query="DELETE FROM orders WHERE number = 1")
        with closing(sqlite3.connect(shop)) as other:
            other.execute("INSERT INTO orders VALUES (9, 1, 1)")  # not committed: a reader does not wait
            assert (await call(client, "read_query", query="SELECT count(*) FROM orders"))["items"] == [[2]]
    assert rows_in("SELECT count(*) FROM orders") == [(2,)]
