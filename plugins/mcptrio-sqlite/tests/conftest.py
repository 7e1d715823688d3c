"""A real database file, and a client of a server with the plugin."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_sqlite import Config, objects

from mcptrio import Client, Server, connect

SHOP = """
CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT NOT NULL, password TEXT DEFAULT 'x', UNIQUE(name));
CREATE TABLE orders(
    number INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customers(id) ON DELETE CASCADE, sum REAL
);
CREATE INDEX by_sum ON orders(sum, lower(number)) WHERE sum > 0;
CREATE VIEW big AS SELECT * FROM orders WHERE sum > 100;
CREATE TRIGGER noted AFTER INSERT ON orders BEGIN UPDATE customers SET password = 'noted' WHERE id = new.customer; END;
CREATE VIRTUAL TABLE places USING rtree(id, west, east);
CREATE VIRTUAL TABLE texts USING fts5(body);
INSERT INTO customers(id, name) VALUES (1, 'Ada'), (2, 'Bob'), (3, 'Cyd');
INSERT INTO orders VALUES (1, 1, 10.5), (2, 1, 200), (3, 2, 300);
INSERT INTO places VALUES (1, 0, 10);
INSERT INTO texts VALUES ('hello world');
"""

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(scope="session")
def made_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database file, which is created once and copied by the tests."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA synchronous = OFF;" + SHOP)
    return path


@pytest.fixture
def shop(made_shop: Path, tmp_path: Path) -> Path:
    """Return a database file with customers and orders."""
    return Path(shutil.copy(made_shop, tmp_path / "shop #1?.db"))


@pytest.fixture
def sqlite_client(shop: Path) -> Connect:
    """Clients of servers with the database ``shop`` and any other settings."""

    @asynccontextmanager
    async def open_client(*, revision: str | None = None, **settings: Any) -> AsyncIterator[Client]:
        config = Config(**{"databases": {"shop": shop}, **settings})
        with trio.fail_after(120):
            async with connect(Server(plugins=objects(config)), revision=revision) as client:
                yield client

    return open_client


@pytest.fixture
def rows_in(shop: Path) -> Callable[[str], list[Any]]:
    """Return a function that runs a query through another connection."""

    def rows(sql: str) -> list[Any]:
        with closing(sqlite3.connect(shop)) as connection:
            return connection.execute(sql).fetchall()

    return rows
